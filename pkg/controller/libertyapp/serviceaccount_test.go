package libertyapp

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// accountBench is a namespace with its default ServiceAccount.
type accountBench struct {
	*testing.T
	*accounts
	key      types.NamespacedName
	requests *counted
}

// counted counts requests and may do something before a patch.
type counted struct {
	client.Client
	gets, patches int
	beforePatch   func()
}

func (c *counted) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	c.gets++
	return c.Client.Get(ctx, key, into, o...)
}

func (c *counted) Patch(ctx context.Context, obj client.Object, p client.Patch, o ...client.PatchOption) error {
	c.patches++
	if c.beforePatch != nil {
		c.beforePatch()
	}
	return c.Client.Patch(ctx, obj, p, o...)
}

func newAccountBench(t *testing.T, existing ...string) *accountBench {
	t.Helper()
	c, err := client.New(clustertest.Config(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &accountBench{T: t, requests: &counted{Client: c}, key: types.NamespacedName{Namespace: clustertest.Namespace(t), Name: defaultAccount}}
	b.accounts = newAccounts(b.requests, b.requests)
	for _, name := range existing {
		b.somebodyAdds(name)
	}
	return b
}

func (b *accountBench) live() *corev1.ServiceAccount {
	b.Helper()
	account, err := clustertest.Client(b).CoreV1().ServiceAccounts(b.key.Namespace).Get(b.Context(), defaultAccount, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return account
}

// somebodyAdds is another writer, who appends a name.
func (b *accountBench) somebodyAdds(name string) {
	b.Helper()
	b.somebody(func(a *corev1.ServiceAccount) {
		a.ImagePullSecrets = append(a.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	})
}

func (b *accountBench) somebody(change func(*corev1.ServiceAccount)) {
	b.Helper()
	for {
		account := b.live()
		change(account)
		_, err := clustertest.Client(b).CoreV1().ServiceAccounts(b.key.Namespace).Update(b.Context(), account, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			b.Fatal(err)
		}
		return
	}
}

// want checks the list, and the names that the operator added.
func (b *accountBench) want(list, ours string) {
	b.Helper()
	account := b.live()
	var names []string
	for _, r := range account.ImagePullSecrets {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{list, ours}, []string{strings.Join(names, ","), account.Annotations[AnnotationPullSecretsAdded]}); diff != "" {
		b.Errorf("list and annotation differ (-want +got):\n%s", diff)
	}
}

func (b *accountBench) adds(name string, wantOurs, wantPatched bool) {
	b.Helper()
	ours, patched, err := b.add(b.Context(), b.key, b.live().ResourceVersion, name)
	if err != nil || ours != wantOurs || patched != wantPatched {
		b.Fatalf("add: ours = %v, patched = %v, err = %v; want %v, %v", ours, patched, err, wantOurs, wantPatched)
	}
}

func (b *accountBench) removes(name string, wantPatched bool) {
	b.Helper()
	patched, err := b.remove(b.Context(), b.key, name)
	if err != nil || patched != wantPatched {
		b.Fatalf("remove: patched = %v, err = %v; want %v", patched, err, wantPatched)
	}
}

func TestAddToAnEmptyList(t *testing.T) {
	b := newAccountBench(t)
	b.adds("pull", true, true)
	b.want("pull", "pull")
	if b.requests.gets != 1 || b.requests.patches != 1 {
		t.Errorf("%d GETs and %d PATCHes, want one each", b.requests.gets, b.requests.patches)
	}
	b.adds("pull", true, false)
	if b.requests.gets != 1 || b.requests.patches != 1 {
		t.Errorf("adding again cost %d GETs and %d PATCHes more", b.requests.gets-1, b.requests.patches-1)
	}
	b.removes("pull", true)
	b.want("", "")
}

func TestOthersEntriesStay(t *testing.T) {
	b := newAccountBench(t, "theirs")
	b.adds("pull", true, true)
	b.somebodyAdds("later")
	b.want("theirs,pull,later", "pull")
	b.removes("pull", true)
	b.want("theirs,later", "")
}

func TestWhatStoodThereBeforeIsNotOurs(t *testing.T) {
	b := newAccountBench(t, "pull")
	b.adds("pull", false, false)
	b.removes("pull", false)
	b.want("pull", "")
}

func TestSeveralNamesOfOurs(t *testing.T) {
	b := newAccountBench(t)
	b.somebody(func(a *corev1.ServiceAccount) { a.Annotations = map[string]string{"their": "note"} })
	b.adds("b", true, true)
	b.adds("a", true, true)
	b.want("b,a", "a,b")
	b.removes("b", true)
	b.want("a", "a")
	b.removes("a", true)
	b.want("", "")
	if got := b.live().Annotations["their"]; got != "note" {
		t.Errorf("another annotation is %q now", got)
	}
}

func TestSomebodyTookItOff(t *testing.T) {
	b := newAccountBench(t)
	b.adds("pull", true, true)
	b.somebody(func(a *corev1.ServiceAccount) { a.ImagePullSecrets = nil })
	b.adds("pull", true, true)
	b.want("pull", "pull")
	b.somebody(func(a *corev1.ServiceAccount) { a.ImagePullSecrets = nil })
	b.removes("pull", true)
	b.want("", "")
}

func TestCompetingWriterIsNeverOverwritten(t *testing.T) {
	b := newAccountBench(t)
	var writers sync.WaitGroup
	const rounds = 3
	// Each of the first patches meets a change made since the list was read.
	b.requests.beforePatch = func() {
		if b.requests.patches <= rounds {
			b.somebodyAdds(fmt.Sprintf("theirs-%d", b.requests.patches))
		}
	}
	b.adds("pull", true, true)
	b.want("theirs-1,theirs-2,theirs-3,pull", "pull")
	if b.requests.patches != rounds+1 {
		t.Errorf("%d patches, want %d", b.requests.patches, rounds+1)
	}
	// And many at once.
	b.requests.beforePatch = nil
	for i := range 10 {
		writers.Go(func() { b.somebodyAdds(fmt.Sprintf("many-%d", i)) })
	}
	b.removes("pull", true)
	writers.Wait()
	account := b.live()
	if len(account.ImagePullSecrets) != rounds+10 || listed(account, "pull") >= 0 {
		t.Errorf("the list is %v, want the %d of the others", account.ImagePullSecrets, rounds+10)
	}
}

func TestTheListIsNotOwnedByApply(t *testing.T) {
	b := newAccountBench(t)
	b.adds("pull", true, true)
	for _, entry := range b.live().ManagedFields {
		if entry.Operation == metav1.ManagedFieldsOperationApply {
			t.Errorf("%s applies %s", entry.Manager, entry.FieldsV1.GetRawString())
		}
	}
	// Who does apply the list meets a conflict instead of losing ours unaware.
	_, err := clustertest.Client(t).CoreV1().ServiceAccounts(b.key.Namespace).Apply(t.Context(),
		corev1apply.ServiceAccount(defaultAccount, b.key.Namespace).WithImagePullSecrets(corev1apply.LocalObjectReference().WithName("theirs")),
		metav1.ApplyOptions{FieldManager: "somebody"})
	if !apierrors.IsConflict(err) {
		t.Errorf("err = %v, want a conflict", err)
	}
}

func TestNoServiceAccount(t *testing.T) {
	b := newAccountBench(t)
	b.key.Name = "absent"
	if _, _, err := b.add(t.Context(), b.key, "1", "pull"); !apierrors.IsNotFound(err) {
		t.Errorf("err = %v, want NotFound", err)
	}
	b.removes("pull", false)
}
