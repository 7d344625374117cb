// Package libertyapp holds what the controller of LibertyApp has beyond the
// generic one: two inputs to the release.
//
// pullSecret puts the Secret of image.pullSecret where pods find it. images
// follows the images of the release in their registries and pins their digests.
// Both only ever change what is wanted of the release; nothing here touches a
// workload beside it.
package libertyapp

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
	"github.com/jkwong888/go-helm-operator/pkg/internal/image"
	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
)

// GroupKind of the resources that the inputs are for.
var GroupKind = schema.GroupKind{Group: "liberty.ibm.com", Kind: "LibertyApp"}

// Config is what the inputs work with.
type Config struct {
	// GVK of the resources, and the key of spec that is the operator's.
	GVK         schema.GroupVersionKind
	OperatorKey string
	// Chart of the releases, for its own values.
	Chart *chart.Chart
	// Cache reads the resources, Live everything else, each object by name.
	Cache, Live client.Reader
	// Writer patches ServiceAccounts.
	Writer client.Client
	// Poller to follow images with. Whoever it notifies must get another pass.
	Poller *image.Poller
	// Clock tells the time; tests replace it.
	Clock clock.PassiveClock
}

// Inputs are the inputs of the kind, in the order in which they are asked: an
// image can be resolved only with the pull secret at hand.
func Inputs(c Config) []reconciler.Input {
	secrets, accounts := newSecrets(c.Live), newAccounts(c.Live, c.Writer)
	return []reconciler.Input{
		&pullSecret{
			chart: c.Chart, secrets: secrets, accounts: accounts,
			users: users{cache: c.Cache, gvk: c.GVK, operatorKey: c.OperatorKey, chart: c.Chart},
		},
		&images{
			chart: c.Chart, poller: c.Poller, secrets: secrets, accounts: accounts,
			live: c.Live, clock: c.Clock,
		},
	}
}
