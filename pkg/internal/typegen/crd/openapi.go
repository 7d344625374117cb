package crd

import (
	"context"
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/util"
)

// OpenAPI makes an OpenAPI v2 document of the kinds in a Go package, for
// applyconfiguration-gen: with it, generated fakes know which fields an apply
// owns. It tells the structure alone, without descriptions and validation.
func OpenAPI(ctx context.Context, dir string) ([]byte, error) {
	l, err := load(ctx, dir)
	if err != nil {
		return nil, err
	}
	definitions := map[string]any{}
	for _, kind := range l.kinds {
		definition, err := l.define(kind, nothing)
		if err != nil {
			return nil, err
		}
		for _, version := range definition.Spec.Versions {
			schema := structure(version.Schema.OpenAPIV3Schema)
			schema["x-kubernetes-group-version-kind"] = []any{map[string]any{
				"group": definition.Spec.Group, "version": version.Name, "kind": definition.Spec.Names.Kind}}
			definitions[util.ToRESTFriendlyName(l.root.PkgPath+"."+kind.Kind)] = schema
		}
	}
	document, err := json.Marshal(map[string]any{
		"swagger":     "2.0",
		"info":        map[string]any{"title": "kinds of " + l.root.PkgPath, "version": "unversioned"},
		"paths":       map[string]any{},
		"definitions": definitions,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the OpenAPI document of %s: %w", dir, err)
	}
	return document, nil
}

// structure reduces a schema to what server-side apply asks of it. What has no
// single type, a number or a string among others, is left open.
func structure(props *apiextensionsv1.JSONSchemaProps) map[string]any {
	reduced := map[string]any{}
	if props.XIntOrString || props.Type == "" {
		return reduced
	}
	reduced["type"] = props.Type
	if len(props.Properties) > 0 {
		properties := map[string]any{}
		for name, property := range props.Properties {
			if name == "metadata" && len(property.Properties) == 0 {
				property = apiextensionsv1.JSONSchemaProps{} // open
			}
			properties[name] = structure(&property)
		}
		reduced["properties"] = properties
	}
	if props.Items != nil && props.Items.Schema != nil {
		reduced["items"] = structure(props.Items.Schema)
	}
	if props.AdditionalProperties != nil && props.AdditionalProperties.Schema != nil {
		reduced["additionalProperties"] = structure(props.AdditionalProperties.Schema)
	}
	if props.XListType != nil {
		reduced["x-kubernetes-list-type"] = *props.XListType
	}
	if len(props.XListMapKeys) > 0 {
		reduced["x-kubernetes-list-map-keys"] = props.XListMapKeys
	}
	if props.XMapType != nil {
		reduced["x-kubernetes-map-type"] = *props.XMapType
	}
	return reduced
}
