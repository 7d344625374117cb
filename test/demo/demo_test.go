package main

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

// TestStoryHolds plays the demo to its end; show fails when an act does.
func TestStoryHolds(t *testing.T) {
	t.Chdir("../..")
	if err := show(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(outputDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the demo left %s behind: %v", outputDir, err)
	}
}
