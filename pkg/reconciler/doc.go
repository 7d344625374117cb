// Package reconciler is a controller for any kind whose spec is the values of a
// Helm chart. New takes the kind, the chart and options; SetupWithManager adds
// it to a controller-runtime manager, beside any other controllers.
//
// A pass over one resource is, in order: take up what is wanted (pass.go), ask
// the inputs (input.go), let the release manager act (pkg/release), work out
// Ready (ready.go), write the status once if it changed (status.go), and then
// tell of it in events.
package reconciler
