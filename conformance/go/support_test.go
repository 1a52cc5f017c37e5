// What every file of tests needs: clients for each transport, and ways to say what is expected.

package conformance

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

var ctx = context.Background()

var (
	readonlyKey = keyOf("the read-only key")
	otherKey    = keyOf("a key of another account")
)

func keyOf(text string) string {
	return base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf("%-64s", text)))
}

// An item of most tests.
type thing struct {
	ID   string   `json:"id"`
	Pk   string   `json:"pk"`
	N    int      `json:"n"`
	Tags []string `json:"tags,omitempty"`
}

// How a test talks to its server.
type account struct {
	server    *server
	transport string
	client    *azcosmos.Client
	database  *azcosmos.DatabaseClient
}

// Runs a test over http and over https, each time in a database of its own.
func over(t *testing.T, test func(*testing.T, *account)) {
	for _, transport := range []string{"http", "https"} {
		t.Run(transport, func(t *testing.T) { test(t, accountOf(t, shared, transport)) })
	}
}

func accountOf(t *testing.T, s *server, transport string) *account {
	t.Helper()
	a := &account{server: s, transport: transport}
	a.client = a.connect(t, s.Key, azcosmos.ClientOptions{})
	id := newID("db")
	_, err := a.client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: id}, nil)
	must(t, err)
	a.database, err = a.client.NewDatabase(id)
	must(t, err)
	return a
}

func (a *account) connect(t *testing.T, key string, options azcosmos.ClientOptions) *azcosmos.Client {
	t.Helper()
	credential, err := azcosmos.NewKeyCredential(key)
	must(t, err)
	if options.Transport == nil {
		options.Transport = a.server.trusting()
	}
	client, err := azcosmos.NewClientWithKey(a.server.endpoint("nosql", a.transport, "127.0.0.1"), credential, &options)
	must(t, err)
	t.Cleanup(client.Close)
	return client
}

// The container as another client sees it.
func (a *account) seen(t *testing.T, client *azcosmos.Client, container *azcosmos.ContainerClient) *azcosmos.ContainerClient {
	t.Helper()
	there, err := client.NewContainer(a.database.ID(), container.ID())
	must(t, err)
	return there
}

// A new container with the key /pk, unless `change` says otherwise.
func (a *account) container(t *testing.T, throughput int32, change func(*azcosmos.ContainerProperties)) *azcosmos.ContainerClient {
	t.Helper()
	properties := azcosmos.ContainerProperties{
		ID:                     newID("c"),
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2},
	}
	if change != nil {
		change(&properties)
	}
	options := &azcosmos.CreateContainerOptions{}
	if throughput > 0 {
		planned := azcosmos.NewManualThroughputProperties(throughput)
		options.ThroughputProperties = &planned
	}
	_, err := a.database.CreateContainer(ctx, properties, options)
	must(t, err)
	container, err := a.database.NewContainer(properties.ID)
	must(t, err)
	return container
}

// Throughput with which a container has three ranges.
const threeRanges = 15_000

func newID(prefix string) string {
	return prefix + "-" + strings.ToLower(rand.Text()[:12])
}

func keyed(value string) azcosmos.PartitionKey {
	return azcosmos.NewPartitionKeyString(value)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func that(t *testing.T, holds bool, format string, values ...any) {
	t.Helper()
	if !holds {
		t.Fatalf("expected: "+format, values...)
	}
}

func equal[T any](t *testing.T, expected, found T) {
	t.Helper()
	if !reflect.DeepEqual(expected, found) {
		t.Fatalf("expected %+v, found %+v", expected, found)
	}
}

// The service refuses with this status.
func refused(t *testing.T, status int, err error) *azcore.ResponseError {
	t.Helper()
	var refusal *azcore.ResponseError
	if !errors.As(err, &refusal) {
		t.Fatalf("expected %d, got %v", status, err)
	}
	if refusal.StatusCode != status {
		t.Fatalf("expected %d, got %v", status, refusal)
	}
	return refusal
}

func substatus(refusal *azcore.ResponseError) string {
	return refusal.RawResponse.Header.Get("x-ms-substatus")
}

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	must(t, err)
	return text
}

func decoded[T any](t *testing.T, text []byte) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

func create(t *testing.T, container *azcosmos.ContainerClient, things ...thing) {
	t.Helper()
	for _, each := range things {
		_, err := container.CreateItem(ctx, keyed(each.Pk), encoded(t, each), nil)
		must(t, err)
	}
}

// The rows of all pages of a query.
func rows[T any](t *testing.T, container *azcosmos.ContainerClient, key azcosmos.PartitionKey, query string, options *azcosmos.QueryOptions) []T {
	t.Helper()
	found := []T{}
	pager := container.NewQueryItemsPager(query, key, options)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		must(t, err)
		for _, each := range page.Items {
			found = append(found, decoded[T](t, each))
		}
	}
	return found
}

// All rows of a pager's pages.
func paged[Page, Row any](t *testing.T, pager *runtime.Pager[Page], rowsOf func(Page) []Row) []Row {
	t.Helper()
	found := []Row{}
	for pager.More() {
		page, err := pager.NextPage(ctx)
		must(t, err)
		found = append(found, rowsOf(page)...)
	}
	return found
}

// A client that gives up at the first refusal.
func withoutRetries() azcosmos.ClientOptions {
	return azcosmos.ClientOptions{ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}}
}

func pointer[T any](value T) *T {
	return &value
}

func thingOf(text []byte) (thing, error) {
	var found thing
	err := json.Unmarshal(text, &found)
	return found, err
}

// The number of an item; -1 where it is none.
func numberOf(text []byte) int {
	found, err := thingOf(text)
	if err != nil {
		return -1
	}
	return found.N
}
