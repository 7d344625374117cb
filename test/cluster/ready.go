package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// userAgent is ours in the audit log.
const userAgent = "local-control-plane"

// ownConfig returns the administrator's configuration for this package's own requests.
func (c *Cluster) ownConfig() (*rest.Config, error) {
	if c.Config == nil {
		return nil, fmt.Errorf("%s is missing; stop the control plane and start it again", c.Kubeconfig)
	}
	config := rest.CopyConfig(c.Config)
	config.UserAgent = userAgent
	return config, nil
}

// client returns a client for this package's own requests.
func (c *Cluster) client() (*kubernetes.Clientset, error) {
	config, err := c.ownConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// awaitAPI waits for the API server to say it is ready, and gives up when it or etcd ends.
func (c *Cluster) awaitAPI(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	etcd, err := c.component(Etcd)
	if err != nil {
		return err
	}
	server, err := c.component(APIServer)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-etcd.Done(): // the API server would go on trying to reach it
			cancel(errors.New("etcd ended"))
		case <-ctx.Done():
		}
	}()
	err = server.Until(ctx, func(ctx context.Context) error {
		// Bounded, for a paused server answers never.
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	if err != nil && !etcd.Running() && etcd.Done() != nil {
		return etcd.Until(ctx, func(context.Context) error { return err })
	}
	return err
}

// nodeName names the one node.
const nodeName = "node-1"

// createNode makes the default StorageClass and the node, and waits until Pods can be scheduled to it.
func (c *Cluster) createNode(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: storageClass, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: "simulated.cluster.test",
	}
	if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the default StorageClass: %w", err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{
		corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", corev1.LabelHostname: nodeName,
	}}}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the node: %w", err)
	}
	kwok, err := c.component(Kwok)
	if err != nil {
		return err
	}
	return kwok.Until(ctx, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
			return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
		})
		// The taint not-ready outlives the condition by a moment, and keeps Pods away as long.
		if !ready || len(node.Spec.Taints) > 0 {
			return fmt.Errorf("node %s: ready %t, taints %v", nodeName, ready, node.Spec.Taints)
		}
		return nil
	})
}

// AwaitServiceAccount waits until a namespace has its default ServiceAccount, without which no Pod can be created in it.
func (c *Cluster) AwaitServiceAccount(ctx context.Context, namespace string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	manager, err := c.component(ControllerManager)
	if err != nil {
		return err
	}
	return manager.Until(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// Ready reports as an error what keeps the cluster from being of use right now, without waiting.
func (c *Cluster) Ready(ctx context.Context) error {
	for name, running := range c.Components() {
		if !running {
			return fmt.Errorf("%s does not run; its log is %s", name, c.path(logFolder, name+".log"))
		}
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return fmt.Errorf("the API server is not ready: %w", err)
	}
	if _, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return fmt.Errorf("node %s is not there yet", nodeName)
	} else if err != nil {
		return fmt.Errorf("reading node %s: %w", nodeName, err)
	}
	return nil
}
