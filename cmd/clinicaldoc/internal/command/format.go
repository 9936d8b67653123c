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
	members  []string // that the result can have; none: it may have any
}

const allMembers = "*"

var errTwoForms = usagef("--jq and --template exclude each other")

// flags adds the flags. The samples are of the types that the result is made of.
func (f *format) flags(c *cobra.Command, samples ...any) {
	for _, sample := range samples {
		for field := range reflect.TypeOf(sample).Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" && !slices.Contains(f.members, name) {
				f.members = append(f.members, name)
			}
		}
	}
	c.Annotations = map[string]string{membersKey: strings.Join(f.members, ",")}
	c.Flags().StringVar(&f.json, "json", "", "print JSON: all of it, or these `MEMBERS` with commas between")
	c.Flags().Lookup("json").NoOptDefVal = allMembers
	c.Flags().Var(&f.jq, "jq", "print what this jq `EXPRESSION` makes of the JSON")
	c.Flags().Var(&f.template, "template", "print what this Go `TEMPLATE` makes of the JSON")
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if check != nil {
			if err := check(c, args); err != nil {
				return err
			}
		}
		return f.checkMembers()
	}
}

// checkMembers refuses names that the result never has, before anything is asked of the service.
func (f *format) checkMembers() error {
	if f.jq.IsSet() && f.template.IsSet() {
		return errTwoForms
	}
	for _, name := range f.names() {
		if len(f.members) > 0 && !slices.Contains(f.members, name) {
			return usagef("--json: there is no %s; there are %s", quote(name), strings.Join(f.members, ", "))
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

// joinMembers lets --json take its members as a word of its own, as gh's does: a flag whose value may be missing takes none.
func joinMembers(root *cobra.Command, args []string) []string {
	var joined []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(joined, args[i:]...)
		}
		if args[i] == "--json" && i+1 < len(args) && memberList.MatchString(args[i+1]) && isMembers(root, args, args[i+1]) {
			joined = append(joined, "--json="+args[i+1])
			i++
			continue
		}
		joined = append(joined, args[i])
	}
	return joined
}

// isMembers tells a list of members from an argument, such as a folder: it has a comma, or is the name of a member.
func isMembers(root *cobra.Command, args []string, text string) bool {
	if strings.Contains(text, ",") {
		return true
	}
	c, _, err := root.Find(args)
	return err == nil && slices.Contains(strings.Split(c.Annotations[membersKey], ","), text)
}

const membersKey = "members"
