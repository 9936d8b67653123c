package boxlink_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

func TestMaskAddresses_EachText_LosesOnlySecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/v1/progress-notes?patient_id=7&sort=-id": "/v1/progress-notes?patient_id=7&sort=-id",
		"/list?page_token=next&cursor=next":        "/list?page_token=next&cursor=next",
		"/audio?expires=5&signature=canary":        "/audio?expires=5&signature=masked",
		"/audio?X-Amz-Signature=canary&X-Amz-Credential=canary%2Fx&X-Amz-Date=1": "/audio?X-Amz-Signature=masked&" +
			"X-Amz-Credential=masked&X-Amz-Date=1",
		"/audio?%73ig=canary":                            "/audio?%73ig=masked",
		"/audio?AWSAccessKeyId=canary&Signature=ca=nary": "/audio?AWSAccessKeyId=masked&Signature=masked",
		"/audio?sv=1&sig=canary":                         "/audio?sv=1&sig=masked",
		"/user?api_token=canary":                         "/user?api_token=masked",
		"/user?access_token=canary&api_token=":           "/user?access_token=masked&api_token=masked",
		"/user?apikey=canary#token=x":                    "/user?apikey=masked#token=x",
		"/user?%zz=1&token=canary":                       "/user?%zz=1&token=masked",
		`<http://a.test/?token=canary>; rel="next"`:      `<http://a.test/?token=masked>; rel="next"`,
		"token=plain text without an address":            "token=plain text without an address",
	} {
		assert.Equal(t, want, boxlink.MaskAddresses(text, "masked"))
	}
}

func TestIsSecretHeader_EachName_IsKnown(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"Authorization": true, "Proxy-Authorization": true, "Cookie": true, "Set-Cookie": true, "X-Api-Key": true,
		"apikey": true, "X-Auth-Token": true, "X-Client-Secret": true, "Ocp-Apim-Subscription-Key": true,
		"Idempotency-Key": false, "X-Request-Id": false, "Content-Type": false,
	} {
		assert.Equal(t, want, boxlink.IsSecretHeader(name), name)
	}
}
