// Package apply puts the objects of a release into the cluster and knows how
// they stand there: server-side apply with ownership checks (Client), the order
// and the inventory of a release, and a cache of the applied objects (Cache)
// from which drift and health are read without a request.
//
// The package knows nothing of charts, values or revisions: it is given objects
// and the custom resource that owns them.
package apply
