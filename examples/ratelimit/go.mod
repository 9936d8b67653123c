module github.com/clinicaldoc/clinicaldoc-go/examples/ratelimit

go 1.26.0

require github.com/clinicaldoc/clinicaldoc-go v0.0.0

require (
	github.com/google/go-querystring v1.2.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/hashicorp/go-retryablehttp v0.7.8 // indirect
	golang.org/x/time v0.16.0
)

replace github.com/clinicaldoc/clinicaldoc-go => ../..
