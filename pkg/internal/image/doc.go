// Package image finds out which digest a registry has for an image's tag.
//
// A Keyring holds the credentials of pull secrets and picks those that the
// kubelet would pick for an image. A Resolver asks a registry for a digest
// through transports that bound time, size and the places that can be reached.
// A Poller does so on a schedule, once for all who follow the same image with
// the same credentials, and notifies them of changes.
//
// Nothing here touches the cluster: callers read Secrets and write status.
// Credentials stay inside this package; no error, log line or String method
// shows them.
package image
