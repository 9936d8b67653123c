package account

import "io/fs"

// SetMode is a file system on which every file has this mode, until the function that it returns is called.
func SetMode(mode fs.FileMode) func() {
	before := modeOf
	modeOf = func(fs.FileInfo) fs.FileMode { return mode }
	return func() { modeOf = before }
}
