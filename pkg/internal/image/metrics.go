package image

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics have no label for the image: clusters have too many of them.
type metrics struct {
	polls     *prometheus.CounterVec
	seconds   prometheus.Histogram
	remaining *prometheus.GaugeVec
}

// newMetrics registers the metrics. Those that the registerer has already, from
// an earlier poller, are used on.
func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		polls: register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "registry_polls_total",
			Help: "Polls of registries for the digest of an image, by host and result: unchanged, changed, notfound, denied, throttled, error.",
		}, []string{"host", "result"})),
		seconds: register(r, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "registry_poll_seconds",
			Help:    "Duration of polls of registries, with all their requests.",
			Buckets: []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60},
		})),
		remaining: register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "registry_ratelimit_remaining",
			Help: "Requests left of a registry's quota, as it said last.",
		}, []string{"host"})),
	}
}

func register[C prometheus.Collector](r prometheus.Registerer, collector C) C {
	if r == nil {
		return collector
	}
	err := r.Register(collector)
	var existing prometheus.AlreadyRegisteredError
	if errors.As(err, &existing) {
		if earlier, ok := existing.ExistingCollector.(C); ok {
			return earlier
		}
	}
	if err != nil {
		panic(err) // another metric of this name: a mistake in the program
	}
	return collector
}

// polled counts a poll. remaining is negative where the quota is unknown.
func (m *metrics) polled(host string, err error, changed bool, took time.Duration, remaining int) {
	m.polls.WithLabelValues(host, pollResult(ReasonOf(err), changed)).Inc()
	m.seconds.Observe(took.Seconds())
	if remaining >= 0 {
		m.remaining.WithLabelValues(host).Set(float64(remaining))
	}
}

// forget drops the series of a host that is not polled any more.
func (m *metrics) forget(host string) {
	m.polls.DeletePartialMatch(prometheus.Labels{"host": host})
	m.remaining.DeleteLabelValues(host)
}

func pollResult(reason Reason, changed bool) string {
	switch {
	case reason == Resolved && changed:
		return "changed"
	case reason == Resolved:
		return "unchanged"
	case reason == TagNotFound:
		return "notfound"
	case reason == AuthenticationFailed:
		return "denied"
	case reason == Throttled:
		return "throttled"
	default:
		return "error"
	}
}
