package command

import "github.com/spf13/cobra"

func newEnvironment() *cobra.Command {
	return &cobra.Command{Use: "environment", Short: "Environment variables that the command uses", Long: `Variables:

  CLINICALDOC_BASE_URL      the service, and
  CLINICALDOC_TOKEN         the token for it; set both or neither. They override every context
  CLINICALDOC_QUERY_NAMES   names of the list's parameters for that service, in the form of --query of "login"
  CLINICALDOC_CONFIG_DIR    where contexts are kept, and tokens where there is no keyring
  CLINICALDOC_STATE_DIR     where journals and reports of uploads and unsaved edits are kept
  CLINICALDOC_KEYRING       off: keep tokens in files
  CLINICALDOC_NATS          the NATS server of "upload --nats"; its URL may contain a password
  CLINICALDOC_PLAIN         plain lines, as --plain
  NO_COLOR                  no colours
  VISUAL, EDITOR            the editor of "notes edit", as a shell reads it
  CLINICALDOC_PAGER, PAGER  the pager of lists, notes and reports on a terminal; an empty CLINICALDOC_PAGER means none
  HTTPS_PROXY, HTTP_PROXY, NO_PROXY   proxies

CLINICALDOC_BASE_URL, CLINICALDOC_TOKEN and CLINICALDOC_NATS are not passed to editors, pagers and programs of
"watch --exec".
`}
}
