// Package v1 is a fixture.
//
// +groupName=example.com
package v1
