package command

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// completionLimit is how long a shell may be kept waiting.
const completionLimit = time.Second

// completeNotes offers the newest notes' ids with their stages; never a name.
func (e *Env) completeNotes(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	many := strings.Contains(c.Use, "...")
	if len(args) > 0 && !many {
		return nil, none
	}
	client, err := e.client()
	if err != nil {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionLimit)
	defer cancel()
	page, err := client.Notes.List(
		ctx, clinicaldoc.ListNotesParams{Sort: clinicaldoc.SortLatest, PerPage: 50}, clinicaldoc.WithoutRetry(),
	)
	if err != nil {
		return nil, none
	}
	var offers []string
	for i := range page.Items {
		id := strconv.FormatInt(page.Items[i].ID, 10)
		if strings.HasPrefix(id, begun) && !slices.Contains(args, id) {
			offers = append(offers, id+"\t"+page.Items[i].Stage().String())
		}
	}
	return offers, none | cobra.ShellCompDirectiveKeepOrder
}

func (e *Env) completeNotesThenFiles(
	c *cobra.Command, args []string, begun string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return e.completeNotes(c, args, begun)
}

// completeContexts offers the contexts' names.
func (e *Env) completeContexts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	config, err := loadConfig()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
