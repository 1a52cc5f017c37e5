// The Table API through aztables, in both flavours.

package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

const storageKey = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

// How a test talks to the Table API.
type tables struct {
	flavour   string
	transport string
	service   *aztables.ServiceClient
}

func tableOptions() *aztables.ClientOptions {
	return &aztables.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: shared.trusting(), Retry: policy.RetryOptions{MaxRetries: -1},
	}}
}

// Runs a test in both flavours, each over http and over https.
func inBothFlavours(t *testing.T, test func(*testing.T, *tables)) {
	for _, flavour := range []string{"storage", "cosmos"} {
		for _, transport := range []string{"http", "https"} {
			t.Run(flavour+"/"+transport, func(t *testing.T) {
				listener, name, key := "table_storage", "devstoreaccount1", storageKey
				if flavour == "cosmos" {
					listener, name, key = "table", "localhost", shared.Key
				}
				credential, err := aztables.NewSharedKeyCredential(name, key)
				must(t, err)
				// The SDK appends the names of tables to it where it signs.
				url := strings.TrimSuffix(shared.endpoint(listener, transport, "localhost"), "/") + "/"
				service, err := aztables.NewServiceClientWithSharedKey(url, credential, tableOptions())
				must(t, err)
				test(t, &tables{flavour, transport, service})
			})
		}
	}
}

func (tables *tables) table(t *testing.T) (*aztables.Client, string) {
	t.Helper()
	name := strings.ReplaceAll(newID("t"), "-", "")
	client := tables.service.NewClient(name)
	_, err := client.CreateTable(ctx, nil)
	must(t, err)
	return client, name
}

func (tables *tables) names(t *testing.T, options *aztables.ListTablesOptions) []string {
	t.Helper()
	return paged(t, tables.service.NewListTablesPager(options), func(page aztables.ListTablesResponse) []string {
		found := []string{}
		for _, each := range page.Tables {
			found = append(found, *each.Name)
		}
		return found
	})
}

// The service refuses with this status and code.
func refusedAs(t *testing.T, status int, code string, err error) {
	t.Helper()
	equal(t, code, refused(t, status, err).ErrorCode)
}

func entity(partition, row string, properties map[string]any) aztables.EDMEntity {
	return aztables.EDMEntity{Entity: aztables.Entity{PartitionKey: partition, RowKey: row}, Properties: properties}
}

func add(t *testing.T, client *aztables.Client, entities ...aztables.EDMEntity) {
	t.Helper()
	for _, each := range entities {
		_, err := client.AddEntity(ctx, encoded(t, each), nil)
		must(t, err)
	}
}

func get(t *testing.T, client *aztables.Client, partition, row string) aztables.EDMEntity {
	t.Helper()
	response, err := client.GetEntity(ctx, partition, row, nil)
	must(t, err)
	return decoded[aztables.EDMEntity](t, response.Value)
}

func list(t *testing.T, client *aztables.Client, options *aztables.ListEntitiesOptions) []string {
	t.Helper()
	return paged(t, client.NewListEntitiesPager(options), func(page aztables.ListEntitiesResponse) []string {
		found := []string{}
		for _, each := range page.Entities {
			one := decoded[aztables.EDMEntity](t, each)
			found = append(found, one.PartitionKey+"/"+one.RowKey)
		}
		return found
	})
}

func TestTablesAreCreatedListedAndDeleted(t *testing.T) {
	inBothFlavours(t, func(t *testing.T, tables *tables) {
		_, name := tables.table(t)
		_, err := tables.service.CreateTable(ctx, name, nil)
		refusedAs(t, 409, "TableAlreadyExists", err)
		filter := "TableName eq '" + name + "'"
		equal(t, []string{name}, tables.names(t, &aztables.ListTablesOptions{Filter: &filter}))
		for range 4 {
			tables.table(t)
		}
		that(t, len(tables.names(t, &aztables.ListTablesOptions{Top: pointer(int32(2))})) >= 5, "all pages")
		_, err = tables.service.DeleteTable(ctx, name, nil)
		must(t, err)
		_, err = tables.service.NewClient(name).AddEntity(ctx, encoded(t, entity("p", "r", nil)), nil)
		refusedAs(t, 404, "TableNotFound", err)
	})
}

func TestEntitiesOfEveryType(t *testing.T) {
	inBothFlavours(t, func(t *testing.T, tables *tables) {
		client, _ := tables.table(t)
		sent := map[string]any{
			"Bool": true, "Int32": int32(-7), "Int64": aztables.EDMInt64(9_007_199_254_740_993), "Double": 1.5, "Text": "it's\n\"鱀\"",
			"Guid": aztables.EDMGUID("4185404a-5818-48c3-b9be-f217df0dba6f"), "Binary": aztables.EDMBinary{0, 1, 255},
			"When": aztables.EDMDateTime(time.Date(2013, time.August, 2, 17, 37, 43, 900_434_800, time.UTC)),
		}
		add(t, client, entity("p", "r", sent))
		found := get(t, client, "p", "r")
		equal(t, sent, found.Properties)
		that(t, !time.Time(found.Timestamp).IsZero(), "a time of the last change")
		full := aztables.MetadataFormatFull
		response, err := client.GetEntity(ctx, "p", "r", &aztables.GetEntityOptions{Format: &full})
		must(t, err)
		that(t, strings.Contains(decoded[aztables.EDMEntity](t, response.Value).ID, "PartitionKey='p'"), "an address")
		_, err = client.GetEntity(ctx, "p", "other", nil)
		refusedAs(t, 404, "ResourceNotFound", err)
		_, err = client.AddEntity(ctx, encoded(t, entity("p", "r", nil)), nil)
		refusedAs(t, 409, "EntityAlreadyExists", err)
	})
}

func TestUpdatesMergeOrReplace(t *testing.T) {
	inBothFlavours(t, func(t *testing.T, tables *tables) {
		client, _ := tables.table(t)
		add(t, client, entity("p", "r", map[string]any{"A": int32(1), "B": int32(1)}))
		_, err := client.UpdateEntity(ctx, encoded(t, entity("p", "r", map[string]any{"B": int32(2)})), nil)
		must(t, err)
		merged := get(t, client, "p", "r")
		equal(t, map[string]any{"A": int32(1), "B": int32(2)}, merged.Properties)
		replace := &aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeReplace, IfMatch: pointer(azcore.ETag(merged.ETag))}
		_, err = client.UpdateEntity(ctx, encoded(t, entity("p", "r", map[string]any{"C": int32(3)})), replace)
		must(t, err)
		equal(t, map[string]any{"C": int32(3)}, get(t, client, "p", "r").Properties)
		_, err = client.UpdateEntity(ctx, encoded(t, entity("p", "r", nil)), replace)
		refusedAs(t, 412, "UpdateConditionNotSatisfied", err)
		for _, mode := range []aztables.UpdateMode{aztables.UpdateModeMerge, aztables.UpdateModeReplace} {
			_, err = client.UpsertEntity(ctx, encoded(t, entity("new", string(mode), map[string]any{"D": int32(4)})), &aztables.UpsertEntityOptions{UpdateMode: mode})
			must(t, err)
			equal(t, map[string]any{"D": int32(4)}, get(t, client, "new", string(mode)).Properties)
			_, err = client.UpdateEntity(ctx, encoded(t, entity("none", "r", nil)), &aztables.UpdateEntityOptions{UpdateMode: mode})
			refusedAs(t, 404, "ResourceNotFound", err)
		}
		_, err = client.DeleteEntity(ctx, "p", "r", nil)
		must(t, err)
		_, err = client.DeleteEntity(ctx, "p", "r", nil)
		refusedAs(t, 404, "ResourceNotFound", err)
	})
}

func TestQueriesOfEntities(t *testing.T) {
	inBothFlavours(t, func(t *testing.T, tables *tables) {
		client, _ := tables.table(t)
		for n := range 12 {
			add(t, client, entity(fmt.Sprintf("p%d", n%3), fmt.Sprintf("r%02d", n), map[string]any{"N": int32(n), "Big": aztables.EDMInt64(n)}))
		}
		all := list(t, client, nil)
		equal(t, 12, len(all))
		equal(t, []string{"p0/r00", "p0/r03"}, all[:2])
		for filter, count := range map[string]int{
			"PartitionKey eq 'p1'":                            4,
			"N ge 4 and N lt 8":                               4,
			"Big gt 9L or not (RowKey ne 'r00')":              3,
			"PartitionKey gt 'p0' and RowKey le 'r05'":        4,
			"Timestamp ge datetime'2020-01-01T00:00:00.000Z'": 12,
			"Missing eq 'x'":                                  0,
		} {
			equal(t, count, len(list(t, client, &aztables.ListEntitiesOptions{Filter: &filter})))
		}
		pages := 0
		options := &aztables.ListEntitiesOptions{Top: pointer(int32(5)), Select: pointer("PartitionKey,RowKey,N")}
		for pager := client.NewListEntitiesPager(options); pager.More(); pages++ {
			page, err := pager.NextPage(ctx)
			must(t, err)
			for _, each := range page.Entities {
				properties := decoded[aztables.EDMEntity](t, each).Properties
				that(t, properties["N"] != nil && properties["Big"] == nil, "the selected properties: %v", properties)
			}
		}
		equal(t, 3, pages)
		page, err := client.NewListEntitiesPager(options).NextPage(ctx)
		must(t, err)
		rest := list(t, client, &aztables.ListEntitiesOptions{NextPartitionKey: page.NextPartitionKey, NextRowKey: page.NextRowKey})
		equal(t, all[5:], rest)
		_, err = client.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: pointer("N eq")}).NextPage(ctx)
		refused(t, 400, err)
	})
}

func TestTransactions(t *testing.T) {
	inBothFlavours(t, func(t *testing.T, tables *tables) {
		client, _ := tables.table(t)
		for _, row := range []string{"merge", "replace", "delete"} {
			add(t, client, entity("p", row, map[string]any{"A": int32(1)}))
		}
		action := func(kind aztables.TransactionType, row string) aztables.TransactionAction {
			return aztables.TransactionAction{ActionType: kind, Entity: encoded(t, entity("p", row, map[string]any{"B": int32(2)}))}
		}
		_, err := client.SubmitTransaction(ctx, []aztables.TransactionAction{
			action(aztables.TransactionTypeAdd, "add"),
			action(aztables.TransactionTypeUpdateMerge, "merge"),
			action(aztables.TransactionTypeUpdateReplace, "replace"),
			action(aztables.TransactionTypeInsertMerge, "upsert"),
			action(aztables.TransactionTypeInsertReplace, "upsert too"),
			action(aztables.TransactionTypeDelete, "delete"),
		}, nil)
		must(t, err)
		equal(t, []string{"p/add", "p/merge", "p/replace", "p/upsert", "p/upsert too"}, list(t, client, nil))
		equal(t, map[string]any{"A": int32(1), "B": int32(2)}, get(t, client, "p", "merge").Properties)
		equal(t, map[string]any{"B": int32(2)}, get(t, client, "p", "replace").Properties)
		_, err = client.SubmitTransaction(ctx, []aztables.TransactionAction{
			action(aztables.TransactionTypeAdd, "fresh"), action(aztables.TransactionTypeAdd, "add"),
		}, nil)
		// The SDK shows the answer to the whole, in which the second operation was refused.
		that(t, strings.Contains(refused(t, 202, err).Error(), "EntityAlreadyExists"), "the second is there: %v", err)
		equal(t, 5, len(list(t, client, nil)))
	})
}

func TestSignaturesOfAccountsAndTables(t *testing.T) {
	inBothFlavours(t, func(t *testing.T, tables *tables) {
		client, name := tables.table(t)
		add(t, client, entity("p", "r", nil))
		start, expiry := time.Now().Add(-time.Hour).UTC(), time.Now().Add(time.Hour).UTC()
		ofTable, err := client.GetTableSASURL(aztables.SASPermissions{Read: true}, start, expiry)
		must(t, err)
		reader, err := aztables.NewClientWithNoCredential(ofTable, tableOptions())
		must(t, err)
		equal(t, []string{"p/r"}, list(t, reader, nil))
		_, err = reader.DeleteEntity(ctx, "p", "r", nil)
		refused(t, 403, err)
		ofAccount, err := tables.service.GetAccountSASURL(
			aztables.AccountSASResourceTypes{Service: true, Container: true, Object: true},
			aztables.AccountSASPermissions{Read: true, Write: true, Delete: true, List: true, Add: true, Create: true, Update: true}, start, expiry)
		must(t, err)
		holder, err := aztables.NewServiceClientWithNoCredential(ofAccount, tableOptions())
		must(t, err)
		_, err = holder.NewClient(name).DeleteEntity(ctx, "p", "r", nil)
		if tables.transport == "http" {
			// The SDK's signatures of accounts are for https alone.
			refusedAs(t, 403, "AuthorizationProtocolMismatch", err)
		} else {
			must(t, err)
		}
		late, err := client.GetTableSASURL(aztables.SASPermissions{Read: true}, start, start.Add(time.Minute))
		must(t, err)
		reader, err = aztables.NewClientWithNoCredential(late, tableOptions())
		must(t, err)
		_, err = reader.GetEntity(ctx, "p", "r", nil)
		refused(t, 403, err)
	})
}

func TestServiceProperties(t *testing.T) {
	inBothFlavours(t, func(t *testing.T, tables *tables) {
		if tables.flavour == "cosmos" {
			// The service has none in this flavour.
			_, err := tables.service.GetProperties(ctx, nil)
			that(t, err != nil, "no properties")
			return
		}
		set := aztables.ServiceProperties{
			Logging:       &aztables.Logging{Read: pointer(true), Write: pointer(true), Delete: pointer(false), Version: pointer("1.0"), RetentionPolicy: &aztables.RetentionPolicy{Enabled: pointer(true), Days: pointer(int32(5))}},
			HourMetrics:   &aztables.Metrics{Enabled: pointer(true), Version: pointer("1.0"), IncludeAPIs: pointer(true), RetentionPolicy: &aztables.RetentionPolicy{Enabled: pointer(true), Days: pointer(int32(5))}},
			MinuteMetrics: &aztables.Metrics{Enabled: pointer(false), Version: pointer("1.0"), RetentionPolicy: &aztables.RetentionPolicy{Enabled: pointer(false)}},
			Cors:          []*aztables.CorsRule{{AllowedOrigins: pointer("https://www.xyz.example"), AllowedMethods: pointer("GET,PUT"), AllowedHeaders: pointer("x-ms-meta-*"), ExposedHeaders: pointer("x-ms-*"), MaxAgeInSeconds: pointer(int32(200))}},
		}
		_, err := tables.service.SetProperties(ctx, set, nil)
		must(t, err)
		found, err := tables.service.GetProperties(ctx, nil)
		must(t, err)
		equal(t, set, found.ServiceProperties)
	})
}

func TestStoredAccessPolicies(t *testing.T) {
	inBothFlavours(t, func(t *testing.T, tables *tables) {
		client, _ := tables.table(t)
		start, expiry := time.Now().Add(-time.Hour).UTC().Truncate(time.Second), time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		_, err := client.SetAccessPolicy(ctx, &aztables.SetAccessPolicyOptions{TableACL: []*aztables.SignedIdentifier{{
			ID:           pointer("reader"),
			AccessPolicy: &aztables.AccessPolicy{Start: &start, Expiry: &expiry, Permission: pointer("r")},
		}}})
		if tables.flavour == "cosmos" {
			that(t, err != nil, "no access policies in this flavour")
			return
		}
		must(t, err)
		found, err := client.GetAccessPolicy(ctx, nil)
		must(t, err)
		equal(t, 1, len(found.SignedIdentifiers))
		equal(t, "reader", *found.SignedIdentifiers[0].ID)
		that(t, found.SignedIdentifiers[0].AccessPolicy.Expiry.Equal(expiry), "the time that was set")
	})
}

func TestEntitiesAreItemsOfTheNoSqlAPI(t *testing.T) {
	inBothFlavours(t, func(t *testing.T, tables *tables) {
		client, name := tables.table(t)
		add(t, client, entity("p", "r", map[string]any{"N": int32(7)}))
		a := &account{server: shared, transport: "http"}
		container, err := a.connect(t, shared.Key, withoutRetries()).NewContainer("TablesDB", name)
		must(t, err)
		read, err := container.ReadItem(ctx, keyed("p"), "r", nil)
		must(t, err)
		found := decoded[map[string]json.RawMessage](t, read.Value)
		equal(t, `"r"`, string(found["id"]))
	})
}
