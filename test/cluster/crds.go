package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// InstallCRDs creates the CustomResourceDefinitions in files and folders, as Options.CRDs names them, and waits until the
// API server serves them. One that is there already is left as it is.
func (c *Cluster) InstallCRDs(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	definitions, err := readCRDs(paths)
	if err != nil {
		return err
	}
	config, err := c.ownConfig()
	if err != nil {
		return err
	}
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, definition := range definitions {
		if _, err := client.CustomResourceDefinitions().Create(ctx, &definition, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating CustomResourceDefinition %s: %w", definition.Name, err)
		}
	}
	for _, definition := range definitions {
		err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			got, err := client.CustomResourceDefinitions().Get(ctx, definition.Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			return slices.ContainsFunc(got.Status.Conditions, func(condition apiextensionsv1.CustomResourceDefinitionCondition) bool {
				return condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue
			}), nil
		})
		if err != nil {
			return fmt.Errorf("waiting for CustomResourceDefinition %s to be established: %w", definition.Name, err)
		}
	}
	return nil
}

// readCRDs reads all definitions that paths name; anything else in those files is an error.
func readCRDs(paths []string) ([]apiextensionsv1.CustomResourceDefinition, error) {
	files, err := crdFiles(paths)
	if err != nil {
		return nil, err
	}
	var all []apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		definitions, err := readCRDFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading CustomResourceDefinitions from %s: %w", file, err)
		}
		all = append(all, definitions...)
	}
	return all, nil
}

func crdFiles(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("looking for CustomResourceDefinitions: %w", err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("looking for CustomResourceDefinitions: %w", err)
		}
		for _, entry := range entries {
			if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
				files = append(files, filepath.Join(path, entry.Name()))
			}
		}
	}
	return files, nil
}

func readCRDFile(path string) (definitions []apiextensionsv1.CustomResourceDefinition, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	documents := yamlutil.NewYAMLReader(bufio.NewReader(file))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return definitions, nil
		}
		if err != nil {
			return nil, err
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(document, &definition); err != nil {
			return nil, err
		}
		switch definition.Kind {
		case "CustomResourceDefinition":
			definitions = append(definitions, definition)
		case "": // a document of comments
		default:
			return nil, fmt.Errorf("it holds a %s", definition.Kind)
		}
	}
}
