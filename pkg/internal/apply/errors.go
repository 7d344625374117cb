package apply

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// The messages of all these errors are for users and never hold the content of
// an object: what the API server quotes of it is cut out.

// ForeignError says that an object exists and belongs to somebody else.
type ForeignError struct {
	// Object that was to be applied.
	Object releasev1alpha1.InventoryEntry
	// Other describes to whom it belongs.
	Other string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s exists and belongs to %s; it was left as it is: rename or delete one of the two", EntryKey(e.Object), e.Other)
}

// ForbiddenError says that the operator's role lacks a right.
type ForbiddenError struct {
	// Verb that is missing, as a role names it.
	Verb string
	// Resource that it is missing on.
	Resource schema.GroupVersionResource
	// Namespace it is missing in; empty for the whole cluster.
	Namespace string
	// Name of the object that was asked for; empty for collections.
	Name string
	// Detail says more, where the verb alone does not explain it.
	Detail string

	err error
}

func (e *ForbiddenError) Error() string {
	what := e.Resource.GroupResource().String()
	if e.Name != "" {
		what += " " + e.Name
	}
	where := "the whole cluster"
	if e.Namespace != "" {
		where = "namespace " + e.Namespace
	}
	group := e.Resource.Group
	if group == "" {
		group = `""`
	}
	message := fmt.Sprintf("the operator may not %s %s in %s: its role needs verb %s on resource %s of API group %s",
		e.Verb, what, where, e.Verb, e.Resource.Resource, group)
	if e.Detail != "" {
		message += " (" + e.Detail + ")"
	}
	return message
}

// Unwrap returns the API server's answer.
func (e *ForbiddenError) Unwrap() error { return e.err }

// TerminatingError says that an object cannot be created because its namespace
// is being deleted.
type TerminatingError struct {
	// Object that cannot be created.
	Object Key

	err error
}

func (e *TerminatingError) Error() string {
	return fmt.Sprintf("cannot apply %s: its namespace is being deleted", e.Object)
}

// Unwrap returns the API server's answer.
func (e *TerminatingError) Unwrap() error { return e.err }

// NoKindError says that the cluster does not have a kind.
type NoKindError struct {
	// GVK that is missing.
	GVK schema.GroupVersionKind
	// Served are the versions in which the cluster has the kind.
	Served []string
}

func (e *NoKindError) Error() string {
	if len(e.Served) > 0 {
		return fmt.Sprintf("the cluster has no kind %s in %s, only in version %v: the chart is made for another version of it", e.GVK.Kind, e.GVK.GroupVersion(), e.Served)
	}
	return fmt.Sprintf("the cluster has no kind %s in %s: install its CustomResourceDefinition, or turn off what needs it in the values", e.GVK.Kind, e.GVK.GroupVersion())
}

// ImmutableError says that a field cannot be changed in an existing object.
type ImmutableError struct {
	// Object that cannot be changed.
	Object Key
	// Fields that cannot be changed, as paths.
	Fields []string
	// Detail says more, when only some changes below the field are refused.
	Detail string

	err error
}

func (e *ImmutableError) Error() string {
	fields := strings.Join(e.Fields, ", ")
	if e.Detail != "" {
		fields += " (" + e.Detail + ")"
	}
	return fmt.Sprintf("%s cannot be changed in %s: undo the change, or delete the object and it is created anew (%s)", e.Object, fields, e.remedy())
}

func (e *ImmutableError) remedy() string {
	command := "kubectl delete " + kubectlName(e.Object)
	switch e.Object.Kind {
	case "StatefulSet":
		return command + " --cascade=orphan keeps its pods running"
	case "PersistentVolumeClaim", "PersistentVolume":
		return command + " loses its data"
	default:
		return command
	}
}

// Unwrap returns the API server's answer.
func (e *ImmutableError) Unwrap() error { return e.err }

// InvalidError says that the API server does not accept an object as it is.
type InvalidError struct {
	// Object that was not accepted.
	Object Key
	// Reason why, without values.
	Reason string

	// duplicates are lists that hold an item twice, see duplicateLists.
	duplicates []string
	err        error
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("the API server does not accept %s: %s", e.Object, e.Reason)
}

// Unwrap returns the API server's answer.
func (e *InvalidError) Unwrap() error { return e.err }

// DeniedError says that a quota, policy or admission webhook of the cluster
// refused an object.
type DeniedError struct {
	// Object that was refused.
	Object Key
	// Reason why, without values.
	Reason string

	err error
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("the cluster's policy refused %s: %s", e.Object, e.Reason)
}

// Unwrap returns the API server's answer.
func (e *DeniedError) Unwrap() error { return e.err }

// GoneError says that an object is not the one the operator knew: it was
// deleted, or another one stands under its name. Check tells which.
type GoneError struct {
	// Object that is gone.
	Object Key

	err error
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("%s was deleted or replaced by somebody else meanwhile", e.Object)
}

// Unwrap returns the API server's answer.
func (e *GoneError) Unwrap() error { return e.err }
