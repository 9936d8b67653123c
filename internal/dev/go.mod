module github.com/clinicaldoc/clinicaldoc-go/internal/dev

go 1.26.0

replace github.com/clinicaldoc/clinicaldoc-go => ../..

require (
	github.com/clinicaldoc/clinicaldoc-go v0.0.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/text v0.42.0
)

require (
	github.com/google/go-querystring v1.2.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/hashicorp/go-retryablehttp v0.7.8 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
