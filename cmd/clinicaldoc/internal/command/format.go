package command

import (
	"context"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

// format is how a command's result is printed.
type format struct {
	json     string // "": no JSON; "*": all of it; else names of members
	jq       output.Filter
	template output.Template
	members  []string // that the result can have
}

const allMembers = "*"

var errTwoForms = usagef("--jq and --template cannot be combined")

// flags adds the flags. The samples are of the types that the result is made of.
func (f *format) flags(c *cobra.Command, samples ...any) {
	for _, sample := range samples {
		for field := range reflect.TypeOf(sample).Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "" && name != "-" && !slices.Contains(f.members, name) {
				f.members = append(f.members, name)
			}
		}
	}
	c.Annotations = map[string]string{membersKey: strings.Join(f.members, ",")}
	c.Flags().StringVar(&f.json, "json", "", "print JSON: all of it, or these `FIELDS`, separated by commas")
	c.Flags().Lookup("json").NoOptDefVal = allMembers
	c.Flags().VarP(&f.jq, "jq", "q", "filter the JSON with this jq `EXPRESSION`")
	c.Flags().Var(&f.template, "template", "format the JSON with this Go `TEMPLATE`")
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if err := f.checkMembers(c.Flags().Changed("json")); err != nil {
			return err
		}
		if check != nil {
			return check(c, args)
		}
		return nil
	}
}

// checkMembers rejects fields that the result never has, before anything is asked of the service.
func (f *format) checkMembers(given bool) error {
	if f.jq.IsSet() && f.template.IsSet() {
		return errTwoForms
	}
	list := strings.Join(f.members, ", ")
	if given && f.json == "" {
		return usagef("--json: no field is named; the fields are %s", list)
	}
	for _, name := range f.names() {
		if !slices.Contains(f.members, name) {
			return usagef("--json: there is no field %s; the fields are %s", quote(name), list)
		}
	}
	return nil
}

// names are the members that are asked for; none: all.
func (f *format) names() []string {
	if f.json == "" || f.json == allMembers {
		return nil
	}
	return strings.Split(f.json, ",")
}

// wanted reports whether something else than lines for people is to be printed.
func (f *format) wanted() bool { return f.json != "" || f.jq.IsSet() || f.template.IsSet() }

// print writes a value as JSON if that is wanted, else by the function.
func (e *Env) print(ctx context.Context, f *format, value any, otherwise func() error) error {
	if !f.wanted() {
		return otherwise()
	}
	if names := f.names(); names != nil {
		plain, err := output.Plain(value)
		if err != nil {
			return err
		}
		value = only(plain, names)
	}
	if f.template.IsSet() {
		return e.IO.Template(value, &f.template)
	}
	return e.IO.JSON(ctx, value, &f.jq)
}

// only keeps the named members of an object, or of each object of a list.
func only(value any, names []string) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = only(v[i], names)
		}
	case map[string]any:
		kept := map[string]any{}
		for _, name := range names {
			kept[name] = v[name]
		}
		return kept
	}
	return value
}

var memberList = regexp.MustCompile(`^[a-z][a-z_]*(,[a-z][a-z_]*)*$`)

// joinMembers lets --json take its fields as a word of its own, as gh's does: a flag whose value may be missing
// takes none.
func joinMembers(root *cobra.Command, args []string) []string {
	var joined []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(joined, args[i:]...)
		}
		if args[i] == "--json" && i+1 < len(args) && isMembers(root, args[:i], args[i+1]) {
			joined = append(joined, "--json="+args[i+1])
			i++
			continue
		}
		joined = append(joined, args[i])
	}
	return joined
}

// isMembers tells the fields that follow --json from an argument. The command is the one that the words before
// name. Where it takes files, a single word that is not one of its fields is a file.
func isMembers(root *cobra.Command, before []string, text string) bool {
	if !memberList.MatchString(text) {
		return false
	}
	c, _, err := root.Find(before)
	if err != nil || c.Annotations[membersKey] == "" {
		return false
	}
	known := slices.Contains(strings.Split(c.Annotations[membersKey], ","), text)
	takesFiles := strings.Contains(c.Use, "FILE")
	return known || strings.Contains(text, ",") || !takesFiles
}

const membersKey = "members"
