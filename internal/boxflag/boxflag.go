// Package boxflag gives the examples their flag -box, which runs them on a fake server instead of a service.
package boxflag

import (
	"errors"
	"flag"
	"fmt"
	"os"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

// InMemory is an option for the server of an example. The program ends without closing its server, so recordings are
// kept in memory: in files they would stay in the temporary folder.
func InMemory() clinicaldoctest.Option {
	option, ok := boxlink.InMemory.(clinicaldoctest.Option)
	if !ok {
		panic("boxflag: package clinicaldoctest has not set the option")
	}
	return option
}

// Add defines -box. It starts the server, which lives as long as the program, sets the variables of
// [clinicaldoc.NewClientFromEnv] and turns on the named flags. It fails if these variables name a service already.
func Add(usage string, start func() *clinicaldoctest.Server, turnOn ...string) {
	flag.BoolFunc("box", usage, func(on string) error {
		if on != "true" {
			return nil
		}
		configured := os.Getenv(clinicaldoc.EnvBaseURL) + os.Getenv(clinicaldoc.EnvToken)
		if configured != "" {
			const variables = clinicaldoc.EnvBaseURL + " and " + clinicaldoc.EnvToken
			return errors.New("a service is configured: unset " + variables + ", or leave -box out")
		}
		srv := start()
		fmt.Fprintln(os.Stderr, "using the service in a box at", srv.URL)
		err := errors.Join(os.Setenv(clinicaldoc.EnvBaseURL, srv.URL), os.Setenv(clinicaldoc.EnvToken, srv.Token))
		for _, name := range turnOn {
			err = errors.Join(err, flag.Set(name, "true"))
		}
		return err
	})
}
