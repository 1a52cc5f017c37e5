package conformance

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestItems(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		whole := &azcosmos.ItemOptions{EnableContentResponseOnWrite: true}
		created, err := container.CreateItem(ctx, keyed("a"), encoded(t, thing{ID: "1", Pk: "a", N: 1}), whole)
		must(t, err)
		equal(t, 1, decoded[thing](t, created.Value).N)
		that(t, created.ETag != "" && created.SessionToken != nil && created.RequestCharge > 0, "etag, token and charge")
		_, err = container.CreateItem(ctx, keyed("a"), encoded(t, thing{ID: "1", Pk: "a"}), nil)
		refused(t, 409, err)
		replaced, err := container.ReplaceItem(ctx, keyed("a"), "1", encoded(t, thing{ID: "1", Pk: "a", N: 2}), whole)
		must(t, err)
		equal(t, 2, decoded[thing](t, replaced.Value).N)
		upserted, err := container.UpsertItem(ctx, keyed("a"), encoded(t, thing{ID: "1", Pk: "a", N: 3}), whole)
		must(t, err)
		equal(t, 200, upserted.RawResponse.StatusCode)
		upserted, err = container.UpsertItem(ctx, keyed("a"), encoded(t, thing{ID: "2", Pk: "a"}), whole)
		must(t, err)
		equal(t, 201, upserted.RawResponse.StatusCode)
		read, err := container.ReadItem(ctx, keyed("a"), "1", nil)
		must(t, err)
		equal(t, thing{ID: "1", Pk: "a", N: 3}, decoded[thing](t, read.Value))
		_, err = container.DeleteItem(ctx, keyed("a"), "1", nil)
		must(t, err)
		_, err = container.ReadItem(ctx, keyed("a"), "1", nil)
		refused(t, 404, err)
		_, err = container.ReplaceItem(ctx, keyed("a"), "1", encoded(t, thing{ID: "1", Pk: "a"}), nil)
		refused(t, 404, err)
		_, err = container.CreateItem(ctx, keyed("b"), encoded(t, thing{ID: "1", Pk: "a"}), nil)
		refused(t, 400, err)
	})
}

func TestAnswersOfWritesAreEmptyByDefault(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		created, err := container.CreateItem(ctx, keyed("a"), encoded(t, thing{ID: "1", Pk: "a"}), nil)
		must(t, err)
		equal(t, 0, len(created.Value))
		that(t, created.ETag != "", "the etag comes all the same")
		client := a.connect(t, a.server.Key, azcosmos.ClientOptions{EnableContentResponseOnWrite: true})
		upserted, err := a.seen(t, client, container).UpsertItem(ctx, keyed("a"), encoded(t, thing{ID: "1", Pk: "a", N: 7}), nil)
		must(t, err)
		equal(t, 7, decoded[thing](t, upserted.Value).N)
	})
}

func TestConditions(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		created, err := container.CreateItem(ctx, keyed("a"), encoded(t, thing{ID: "1", Pk: "a"}), nil)
		must(t, err)
		first := &azcosmos.ItemOptions{IfMatchEtag: &created.ETag}
		replaced, err := container.ReplaceItem(ctx, keyed("a"), "1", encoded(t, thing{ID: "1", Pk: "a", N: 1}), first)
		must(t, err)
		that(t, replaced.ETag != created.ETag, "a new version")
		body := encoded(t, thing{ID: "1", Pk: "a", N: 2})
		_, err = container.ReplaceItem(ctx, keyed("a"), "1", body, first)
		refused(t, 412, err)
		_, err = container.UpsertItem(ctx, keyed("a"), body, first)
		refused(t, 412, err)
		_, err = container.DeleteItem(ctx, keyed("a"), "1", first)
		refused(t, 412, err)
		_, err = container.DeleteItem(ctx, keyed("a"), "1", &azcosmos.ItemOptions{IfMatchEtag: pointer(azcore.ETagAny)})
		must(t, err)
	})
}

func TestPatch(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		create(t, container, thing{ID: "1", Pk: "a", N: 1, Tags: []string{"x"}})
		patch := azcosmos.PatchOperations{}
		patch.AppendIncrement("/n", 4)
		patch.AppendAdd("/tags/-", "y")
		patch.AppendReplace("/tags/0", "z")
		patch.AppendSet("/more", map[string]any{"deep": true})
		patch.AppendSet("/gone", 1)
		patch.AppendRemove("/gone")
		patched, err := container.PatchItem(ctx, keyed("a"), "1", patch, &azcosmos.ItemOptions{EnableContentResponseOnWrite: true})
		must(t, err)
		found := decoded[struct {
			thing
			More map[string]bool
			Gone *int
		}](t, patched.Value)
		equal(t, thing{ID: "1", Pk: "a", N: 5, Tags: []string{"z", "y"}}, found.thing)
		equal(t, map[string]bool{"deep": true}, found.More)
		equal(t, nil, found.Gone)
		patch = azcosmos.PatchOperations{}
		patch.SetCondition("FROM c WHERE c.n = 1")
		patch.AppendSet("/n", 2)
		_, err = container.PatchItem(ctx, keyed("a"), "1", patch, nil)
		refused(t, 412, err)
		patch = azcosmos.PatchOperations{}
		patch.AppendRemove("/nothing")
		_, err = container.PatchItem(ctx, keyed("a"), "1", patch, nil)
		refused(t, 400, err)
	})
}

func TestValuesComeBackExactly(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		const text = `{"id":"1","pk":"a","i":9007199254740993,"f":1e-7,"s":"\u0000\ud83d\ude80<&>","l":[null,true,{}]}`
		_, err := container.CreateItem(ctx, keyed("a"), []byte(text), nil)
		must(t, err)
		read, err := container.ReadItem(ctx, keyed("a"), "1", nil)
		must(t, err)
		found := decoded[map[string]json.RawMessage](t, read.Value)
		equal(t, "9007199254740993", string(found["i"]))
		equal(t, 1e-7, decoded[float64](t, found["f"]))
		equal(t, "\x00🚀<&>", decoded[string](t, found["s"]))
		equal(t, []any{nil, true, map[string]any{}}, decoded[[]any](t, found["l"]))
		_, err = container.CreateItem(ctx, keyed("a"), []byte(`{"id":"2","pk":"a"`), nil)
		refused(t, 400, err)
		large := map[string]string{"id": "3", "pk": "a", "text": strings.Repeat("x", 2_100_000)}
		_, err = container.CreateItem(ctx, keyed("a"), encoded(t, large), nil)
		refused(t, 413, err)
	})
}

func TestIdsWithAwkwardCharacters(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		for _, id := range []string{"with space", " leading", "WithUnicode鱀", "🚀", "a+b&c=d", "100%", "it's \"quoted\"", ",=.:~+-@()^${}[]!_"} {
			create(t, container, thing{ID: id, Pk: "a"})
			read, err := container.ReadItem(ctx, keyed("a"), id, nil)
			must(t, err)
			equal(t, id, decoded[thing](t, read.Value).ID)
			_, err = container.DeleteItem(ctx, keyed("a"), id, nil)
			must(t, err)
		}
	})
}

func TestPartitionKeysOfEveryType(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		keys := map[string]azcosmos.PartitionKey{
			`"text"`: keyed("text"), `1.5`: azcosmos.NewPartitionKeyNumber(1.5),
			`true`: azcosmos.NewPartitionKeyBool(true), `null`: azcosmos.NullPartitionKey,
		}
		for text, key := range keys {
			_, err := container.CreateItem(ctx, key, []byte(`{"id":"1","pk":`+text+`}`), nil)
			must(t, err)
		}
		for text, key := range keys {
			read, err := container.ReadItem(ctx, key, "1", nil)
			must(t, err)
			equal(t, text, string(decoded[map[string]json.RawMessage](t, read.Value)["pk"]))
		}
	})
}

func TestHierarchicalKeys(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, func(properties *azcosmos.ContainerProperties) {
			properties.PartitionKeyDefinition = azcosmos.PartitionKeyDefinition{
				Paths: []string{"/tenant", "/user"}, Kind: azcosmos.PartitionKeyKindMultiHash, Version: 2,
			}
		})
		type row struct{ ID, Tenant, User string }
		for _, user := range []string{"u1", "u2"} {
			for _, tenant := range []string{"t1", "t2"} {
				key := keyed(tenant).AppendString(user)
				item := map[string]string{"id": "1", "tenant": tenant, "user": user}
				_, err := container.CreateItem(ctx, key, encoded(t, item), nil)
				must(t, err)
			}
		}
		read, err := container.ReadItem(ctx, keyed("t1").AppendString("u2"), "1", nil)
		must(t, err)
		equal(t, row{"1", "t1", "u2"}, decoded[row](t, read.Value))
		_, err = container.ReadItem(ctx, keyed("t3").AppendString("u2"), "1", nil)
		refused(t, 404, err)
		equal(t, 1, len(rows[row](t, container, keyed("t1").AppendString("u1"), "SELECT * FROM c", nil)))
		ofTenant := rows[row](t, container, azcosmos.NewPartitionKey(), "SELECT * FROM c WHERE c.tenant = 't2'", nil)
		equal(t, 2, len(ofTenant))
	})
}
