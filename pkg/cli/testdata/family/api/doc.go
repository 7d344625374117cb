// Package v1alpha1 is a fixture.
//
// +groupName=family.example.com
package v1alpha1
