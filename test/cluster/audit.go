package cluster

// auditPolicy writes down every request once it is answered, and a watch when it starts. No bodies: they hold Secrets.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

func (c *Cluster) auditArgs() []string {
	if !c.options.AuditLog {
		return nil
	}
	return []string{
		"--audit-policy-file=" + c.path(etcFolder, "audit.yaml"),
		"--audit-log-path=" + c.auditPath(),
		"--audit-log-maxsize=1000000", // MB; a rotated file would be lost to Requests
	}
}

func (c *Cluster) auditPath() string { return c.path(logFolder, "audit.log") }
