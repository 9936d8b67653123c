// Package oapi is the client that oapi-codegen makes of the service's OpenAPI document.
package oapi

//go:generate go tool oapi-codegen -config config.yaml ../../../../../docs/openapi.json
