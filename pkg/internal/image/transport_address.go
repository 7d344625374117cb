package image

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
)

// blockedAddressError is an address no registry can have.
type blockedAddressError struct{ address string }

func (e *blockedAddressError) Error() string {
	return fmt.Sprintf("%s is a link-local address or a cloud's metadata service; refused", e.address)
}

// blocked are the addresses that hand out credentials of the node to whoever
// asks. Loopback and private networks are allowed: real registries live there.
var blocked = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"),     // link-local; metadata of AWS, Azure, GCP, OpenStack
	netip.MustParsePrefix("fe80::/10"),          // link-local
	netip.MustParsePrefix("fd00:ec2::254/128"),  // metadata of AWS
	netip.MustParsePrefix("fd20:ce::254/128"),   // metadata of GCP
	netip.MustParsePrefix("100.100.100.200/32"), // metadata of Alibaba
	netip.MustParsePrefix("168.63.129.16/32"),   // host agent of Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // metadata of Oracle
}

// nat64 are IPv6 addresses that stand for the IPv4 address in their last bytes
// (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func isBlocked(address netip.Addr) bool {
	address = address.WithZone("").Unmap()
	if nat64.Contains(address) {
		b := address.As16()
		address = netip.AddrFrom4([4]byte(b[12:]))
	}
	for _, prefix := range blocked {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// refuseBlockedAddress runs for each connection after names are resolved, so
// neither a redirect, nor a token realm, nor a name that resolves differently
// the second time gets around it.
func refuseBlockedAddress(_ context.Context, _, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dialling %q: %w", address, err)
	}
	if isBlocked(target.Addr()) {
		return &blockedAddressError{address: target.Addr().String()}
	}
	return nil
}

// withAddressGuard refuses what can be told without resolving names, for
// requests that a proxy would resolve.
func withAddressGuard(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		host := strings.TrimSuffix(strings.ToLower(r.URL.Hostname()), ".")
		if host == "metadata.google.internal" {
			return nil, &blockedAddressError{address: host}
		}
		if address, err := netip.ParseAddr(host); err == nil && isBlocked(address) {
			return nil, &blockedAddressError{address: host}
		}
		return next.RoundTrip(r)
	})
}
