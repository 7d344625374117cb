// Package release is the release manager: a state machine that brings the
// release of one resource to what its chart, values and inputs ask for.
//
// A pass asks where the release is (state.go), takes the one action that state
// calls for (install.go, upgrade.go, heal.go, uninstall.go), notes the result in the
// status it was given (record.go) and asks again, until nothing is left to do.
// A crash between any two requests resumes: the payload of a revision is stored
// before its first object is applied, and the record is written after its last
// one, so that whatever lies between the two is found and finished.
//
// The package speaks to the cluster through pkg/internal/apply and to Helm
// through pkg/internal/chart; it never writes the resource itself.
package release
