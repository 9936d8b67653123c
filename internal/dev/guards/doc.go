// Package guards holds the guards on the repository: tests of its dependencies, public names, documents and sizes.
package guards
