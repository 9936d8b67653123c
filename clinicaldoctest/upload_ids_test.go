package clinicaldoctest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestCreate_IDIsNotAnInteger_SaysSo(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{PatientsMustExist: true}))
	for _, id := range []string{"007", "99999999999999999999", "1.0", "one"} {
		form := validForm()
		form.fields["patient_id"] = id
		problems := c.create(form).object(t)["errors"]
		assert.Equal(t, object{"patient_id": []any{"The patient id must be an integer."}}, problems, id)
	}
}

func TestCreate_IDIsAlsoAnArray_IsNotAnInteger(t *testing.T) {
	t.Parallel()
	c := start(t)
	form := validForm()
	form.fields["patient_id[]"] = "9"
	problems := c.create(form).object(t)["errors"]
	assert.Equal(t, object{"patient_id": []any{"The patient id must be an integer."}}, problems)
}
