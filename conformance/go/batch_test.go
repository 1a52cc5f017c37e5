package conformance

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func statuses(response azcosmos.TransactionalBatchResponse) []int32 {
	found := []int32{}
	for _, each := range response.OperationResults {
		found = append(found, each.StatusCode)
	}
	return found
}

func TestBatches(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		create(t, container, thing{ID: "old", Pk: "a", N: 1}, thing{ID: "gone", Pk: "a"})
		batch := container.NewTransactionalBatch(keyed("a"))
		batch.CreateItem(encoded(t, thing{ID: "new", Pk: "a", N: 2}), nil)
		batch.ReadItem("old", nil)
		batch.ReplaceItem("old", encoded(t, thing{ID: "old", Pk: "a", N: 3}), nil)
		batch.UpsertItem(encoded(t, thing{ID: "up", Pk: "a", N: 4}), nil)
		patch := azcosmos.PatchOperations{}
		patch.AppendIncrement("/n", 10)
		batch.PatchItem("old", patch, nil)
		batch.DeleteItem("gone", nil)
		response, err := container.ExecuteTransactionalBatch(ctx, batch, &azcosmos.TransactionalBatchOptions{EnableContentResponseOnWrite: true})
		must(t, err)
		equal(t, true, response.Success)
		equal(t, []int32{201, 200, 200, 201, 200, 204}, statuses(response))
		equal(t, 1, decoded[thing](t, response.OperationResults[1].ResourceBody).N)
		equal(t, 13, decoded[thing](t, response.OperationResults[4].ResourceBody).N)
		that(t, response.SessionToken != "" && response.RequestCharge > 0, "token and charge")
		equal(t, []int{2, 13, 4}, rows[int](t, container, keyed("a"), "SELECT VALUE c.n FROM c ORDER BY c.id", nil))
	})
}

func TestBatchesAreAllOrNothing(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		create(t, container, thing{ID: "old", Pk: "a", N: 1})
		batch := container.NewTransactionalBatch(keyed("a"))
		batch.UpsertItem(encoded(t, thing{ID: "old", Pk: "a", N: 2}), nil)
		batch.CreateItem(encoded(t, thing{ID: "old", Pk: "a", N: 3}), nil)
		batch.DeleteItem("old", nil)
		response, err := container.ExecuteTransactionalBatch(ctx, batch, nil)
		must(t, err)
		equal(t, false, response.Success)
		equal(t, []int32{424, 409, 424}, statuses(response))
		equal(t, []int{1}, rows[int](t, container, keyed("a"), "SELECT VALUE c.n FROM c", nil))

		read, err := container.ReadItem(ctx, keyed("a"), "old", nil)
		must(t, err)
		create(t, container, thing{ID: "other", Pk: "a"})
		batch = container.NewTransactionalBatch(keyed("a"))
		batch.ReplaceItem("other", encoded(t, thing{ID: "other", Pk: "a"}), &azcosmos.TransactionalBatchItemOptions{IfMatchETag: &read.ETag})
		response, err = container.ExecuteTransactionalBatch(ctx, batch, nil)
		must(t, err)
		equal(t, []int32{412}, statuses(response))

		batch = container.NewTransactionalBatch(keyed("a"))
		for n := range 101 {
			batch.UpsertItem(encoded(t, thing{ID: newID("i"), Pk: "a", N: n}), nil)
		}
		_, err = container.ExecuteTransactionalBatch(ctx, batch, nil)
		refused(t, 400, err)
		equal(t, 2, len(rows[int](t, container, keyed("a"), "SELECT VALUE c.n FROM c", nil)))
	})
}
