// Partitions are split and merged under live traffic, and no client notices.

package conformance

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

const (
	clients = 6
	keys    = 40
)

type place struct{ pk, id string }

// One SDK client that checks after every step that it sees what it wrote.
type writer struct {
	number    int
	container *azcosmos.ContainerClient
	expected  map[place]int
	steps     atomic.Int64
}

func (w *writer) run(isOver *atomic.Bool) error {
	chance := rand.New(rand.NewPCG(uint64(w.number), 7))
	for !isOver.Load() {
		if err := w.step(chance); err != nil {
			return fmt.Errorf("writer %d, step %d: %w", w.number, w.steps.Load(), err)
		}
		w.steps.Add(1)
	}
	return nil
}

func (w *writer) step(chance *rand.Rand) error {
	n := int(w.steps.Load())
	at := place{fmt.Sprintf("p%d", chance.IntN(keys)), fmt.Sprintf("%d-%d", w.number, chance.IntN(20))}
	key := keyed(at.pk)
	text := func(id string) []byte { return fmt.Appendf(nil, `{"id":%q,"pk":%q,"n":%d}`, id, at.pk, n) }
	_, isThere := w.expected[at]
	action := chance.IntN(10)
	switch {
	case action == 0 && isThere:
		if _, err := w.container.DeleteItem(ctx, key, at.id, nil); err != nil {
			return err
		}
		delete(w.expected, at)
	case action == 1:
		batch := w.container.NewTransactionalBatch(key)
		for b := range 3 {
			id := fmt.Sprintf("%d-b%d", w.number, b)
			batch.UpsertItem(text(id), nil)
			w.expected[place{at.pk, id}] = n
		}
		response, err := w.container.ExecuteTransactionalBatch(ctx, batch, nil)
		if err != nil || !response.Success {
			return fmt.Errorf("batch %v: %w", statuses(response), err)
		}
	case action == 2 || action == 3 && n%5 == 0:
		if action == 3 {
			key = azcosmos.NewPartitionKey()
		}
		return w.query(key, at.pk, action == 3)
	default:
		if _, err := w.container.UpsertItem(ctx, key, text(at.id), nil); err != nil {
			return err
		}
		w.expected[at] = n
	}
	expected, isThere := w.expected[at]
	if !isThere {
		return nil
	}
	read, err := w.container.ReadItem(ctx, key, at.id, nil)
	if err != nil {
		return err
	}
	if found := read.Value; !reflect.DeepEqual(expected, numberOf(found)) {
		return fmt.Errorf("%v: expected %d, found %s", at, expected, found)
	}
	return nil
}

func (w *writer) query(key azcosmos.PartitionKey, pk string, isWhole bool) error {
	options := &azcosmos.QueryOptions{QueryParameters: []azcosmos.QueryParameter{{Name: "@prefix", Value: fmt.Sprintf("%d-", w.number)}}}
	pager := w.container.NewQueryItemsPager("SELECT * FROM c WHERE STARTSWITH(c.id, @prefix)", key, options)
	found := map[place]int{}
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, each := range page.Items {
			item, err := thingOf(each)
			if err != nil {
				return err
			}
			found[place{item.Pk, item.ID}] = item.N
		}
	}
	wanted := map[place]int{}
	for at, n := range w.expected {
		if isWhole || at.pk == pk {
			wanted[at] = n
		}
	}
	if !reflect.DeepEqual(wanted, found) {
		return fmt.Errorf("query of %q: expected %v, found %v", pk, wanted, found)
	}
	return nil
}

// Splits and merges through the admin API.
type partitions struct {
	t      *testing.T
	server *server
	path   string
}

func (p partitions) ids() []string {
	var listed struct{ Partitions []struct{ ID string } }
	p.server.admin(p.t, p.path, nil, &listed)
	found := []string{}
	for _, each := range listed.Partitions {
		found = append(found, each.ID)
	}
	return found
}

func (p partitions) change(path string, body any) {
	var job struct {
		ID    any
		Phase string
	}
	p.server.admin(p.t, p.path+path, body, &job)
	for job.Phase == "preparing" {
		p.server.admin(p.t, fmt.Sprintf("/jobs/%v", job.ID), nil, &job)
	}
	equal(p.t, "succeeded", job.Phase)
}

func TestSplitsAndMergesAreNotNoticed(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, threeRanges, nil)
		changed := partitions{t, a.server, "/containers/" + a.database.ID() + "/" + container.ID() + "/partitions"}
		equal(t, 3, len(changed.ids()))
		var isOver atomic.Bool
		var running sync.WaitGroup
		writers, errs := make([]*writer, clients), make([]error, clients)
		for n := range writers {
			client := a.connect(t, a.server.Key, azcosmos.ClientOptions{})
			writers[n] = &writer{number: n, container: a.seen(t, client, container), expected: map[place]int{}}
			running.Add(1)
			go func() {
				defer running.Done()
				if errs[n] = writers[n].run(&isOver); errs[n] != nil {
					isOver.Store(true)
				}
			}()
		}
		defer running.Wait()
		defer isOver.Store(true)
		chance := rand.New(rand.NewPCG(7, 7))
		for range 10 {
			ids := changed.ids()
			if len(ids) >= 5 || chance.IntN(10) < 3 {
				at := chance.IntN(len(ids) - 1)
				changed.change("/merge", map[string]any{"ids": ids[at : at+2]})
			} else {
				changed.change("/"+ids[chance.IntN(len(ids))]+"/split", map[string]any{"at": "midpoint"})
			}
			goals := make([]int64, clients)
			for n, each := range writers {
				goals[n] = each.steps.Load() + 4
			}
			for n, each := range writers {
				for each.steps.Load() < goals[n] && !isOver.Load() {
					time.Sleep(5 * time.Millisecond)
				}
			}
		}
		isOver.Store(true)
		running.Wait()
		for _, err := range errs {
			must(t, err)
		}
		expected, stored, seen := map[place]int{}, map[place]int{}, map[place]int{}
		for _, each := range writers {
			for at, n := range each.expected {
				expected[at] = n
			}
		}
		for _, each := range rows[thing](t, container, azcosmos.NewPartitionKey(), "SELECT * FROM c", nil) {
			stored[place{each.Pk, each.ID}] = each.N
		}
		equal(t, expected, stored)
		fed, _ := changes(t, container, azcosmos.ChangeFeedOptions{FeedRange: &everything})
		for _, each := range fed {
			seen[place{each.Pk, each.ID}] = each.N
		}
		for at, n := range expected {
			equal(t, n, seen[at])
		}
	})
}

func TestChangeFeedGoesOnAfterASplit(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		create(t, container, spread(30)...)
		found, next := changes(t, container, azcosmos.ChangeFeedOptions{FeedRange: &everything, MaxItemCount: 10})
		equal(t, 30, len(found))
		changed := partitions{t, a.server, "/containers/" + a.database.ID() + "/" + container.ID() + "/partitions"}
		changed.change("/"+changed.ids()[0]+"/split", map[string]any{"at": "midpoint"})
		for n := range 10 {
			create(t, container, thing{ID: fmt.Sprintf("late%d", n), Pk: fmt.Sprintf("p%d", n)})
		}
		found, _ = changes(t, container, azcosmos.ChangeFeedOptions{FeedRange: &everything, Continuation: next, MaxItemCount: 3})
		equal(t, 10, len(found))
	})
}
