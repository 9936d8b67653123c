package jsonscan

// Raw consumes and validates the next value and returns its literal, without
// surrounding white space, as a view of the document.
func (d *Decoder) Raw() []byte {
	start := d.pos
	d.Skip()
	return d.since(start)
}

// RawMember is Raw for a member of the object that Fields loops over: with its
// key and colon. The value must not have been read yet.
func (d *Decoder) RawMember() []byte {
	start := d.member
	d.Skip()
	return d.since(start)
}

// since returns what was consumed from start on.
func (d *Decoder) since(start int) []byte {
	if d.err != nil {
		return nil
	}
	return d.data[start:d.pos:d.pos]
}
