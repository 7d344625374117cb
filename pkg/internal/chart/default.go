package chart

// Default returns the chart's own value under a path of keys, which users may
// override; nil if it has none. The result is shared: do not change it.
func (c *Chart) Default(path ...string) any {
	var value any = c.root.Values
	for _, key := range path {
		table, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = table[key]
	}
	return value
}
