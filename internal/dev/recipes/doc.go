// Package recipes holds the code of docs/recipes.md and its tests. It is a module of its own, so that importers of the SDK do
// not get the libraries that the recipes use.
package recipes
