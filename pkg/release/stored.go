package release

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// storedPage is how many Secrets are listed with one request.
const storedPage = 500

// StoredSecrets tells, from the labels of Helm's Secrets, which revisions are
// stored in the namespaces; none means all. It lists metadata only.
func StoredSecrets(client metadata.Interface, namespaces []string) Stored {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	return func(ctx context.Context) (map[types.NamespacedName]int64, error) {
		newest := map[types.NamespacedName]int64{}
		for _, namespace := range namespaces {
			if err := listStored(ctx, client, namespace, newest); err != nil {
				return nil, fmt.Errorf("listing the Secrets of releases in namespace %q: %w", namespace, err)
			}
		}
		return newest, nil
	}
}

func listStored(ctx context.Context, client metadata.Interface, namespace string, newest map[types.NamespacedName]int64) error {
	secrets := client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
	options := metav1.ListOptions{LabelSelector: "owner=helm", Limit: storedPage}
	for {
		page, err := secrets.List(ctx, options)
		if err != nil {
			return err
		}
		for i := range page.Items {
			labels := page.Items[i].Labels
			name := types.NamespacedName{Namespace: page.Items[i].Namespace, Name: labels["name"]}
			revision, err := strconv.ParseInt(labels["version"], 10, 64)
			if err == nil && revision > newest[name] {
				newest[name] = revision
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}
