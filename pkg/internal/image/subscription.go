package image

import "time"

// Subscriber is who wants to know of changes, usually a custom resource.
type Subscriber struct {
	Kind, Namespace, Name string
}

// Subscription is one image that a Subscriber follows.
type Subscription struct {
	// Image as the pod template has it. A pinned one is not polled.
	Image string
	// Credentials to try, in order, as Keyring.Lookup returns them. Others
	// than before mean a poll at once.
	Credentials []Credential
	// Interval between polls; zero means the Poller's default. Among several
	// subscribers the shortest counts.
	Interval time.Duration
	// Insecure allows plain HTTP and unverified certificates.
	Insecure bool
	// CAPEM holds certificate authorities to trust besides the system's.
	CAPEM []byte
	// Known is the digest on record, "" for an image never seen. One never
	// seen is polled at once; the others' first polls are spread, so that a
	// restart is no burst. A Result keeps it until the registry says another.
	Known string
}

// Result is what is known of an image.
type Result struct {
	// Digest the registry gave last; kept when later polls fail.
	Digest string
	// Reason is the outcome of the last poll.
	Reason Reason
	// Err says why the last poll failed, for the user; nil if it did not.
	Err error
	// Checked is when the last poll ended.
	Checked time.Time
	// Confirmed is when the registry last gave Digest.
	Confirmed time.Time
	// Changed is when this poller saw Digest become what it is; zero while it
	// is the one that was Known.
	Changed time.Time
	// Credential is the name of the Secret that was accepted; empty for
	// anonymous access.
	Credential string
}

// Key identifies what is polled once for all its subscribers.
type Key struct {
	// Image with registry, repository and tag spelt out.
	Image string
	// Credentials is a fingerprint of them and of their order.
	Credentials string
	// CA is a fingerprint of the additional certificate authorities.
	CA string
	// Insecure allows plain HTTP and unverified certificates.
	Insecure bool
}
