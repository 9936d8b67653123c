// Package disktest is the model of a disk for tests. The next process sees immediately what a process wrote, but a
// power cut leaves only what was synced, and any part of the rest.
package disktest

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/durable"
)

// Disk is a machine's disk. Its only folders are those that files are in.
type Disk struct {
	mu      sync.Mutex
	names   map[string]*inode
	synced  map[string]*inode // the names after the last sync, which a power cut leaves
	changes []nameChange      // of names, since the last sync, in this order
	locks   map[string]*mount
}

// nameChange is a change of names: a file was created (from is empty), removed (to is empty) or renamed.
type nameChange struct {
	from, to string
	file     *inode // nil if it was removed
}

// inode is a file, whatever its name.
type inode struct {
	content []byte
	synced  []byte   // the content after the last sync
	changes []change // since the last sync, in this order
	holder  *mount   // nil if nobody has locked it
}

// change is a write, or a truncation if data is nil.
type change struct {
	at   int64
	data []byte
}

// New returns an empty disk.
func New() *Disk {
	return &Disk{names: map[string]*inode{}, synced: map[string]*inode{}, locks: map[string]*mount{}}
}

// Process is called before each operation with the operation's name. It may take time, as a sync does. If it returns
// an error, the operation fails with it and is not done. Of a write that fails with [syscall.ENOSPC] a third is done,
// as on a full disk.
type Process func(op string) error

// The operations of a process.
const (
	Open     = "open" // the first four change nothing, except that Take creates a missing file
	Read     = "read"
	IsAt     = "is at"
	Lock     = "lock"
	Create   = "create"
	Rename   = "rename"
	Remove   = "remove"
	Write    = "write"
	Truncate = "truncate"
	Sync     = "sync"
	SyncDir  = "sync folder"
)

// Mount returns the disk as a process uses it. If p is nil, no operation fails.
func (d *Disk) Mount(p Process) durable.FS {
	if p == nil {
		p = func(string) error { return nil }
	}
	return &mount{d, p}
}

// Kill ends all processes: what they held is free. Nothing that they wrote is lost by that.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.locks)
	for _, file := range d.names {
		file.holder = nil
	}
}

// PowerCut ends all processes, and loses some of what was not synced. The function choose decides what is lost: it
// returns a number from 0 to n-1. Changes of names reach the disk in their order. Of a renaming, the last one to reach
// the disk, perhaps only half is done: the file then has both names. What is left of a file's content is one of its
// outcomes.
func (d *Disk) PowerCut(choose func(n int) int) {
	d.Kill()
	d.mu.Lock()
	defer d.mu.Unlock()
	names := maps.Clone(d.synced)
	kept := choose(len(d.changes) + 1)
	for _, change := range d.changes[:kept] {
		change.apply(names)
	}
	if kept < len(d.changes) {
		next := d.changes[kept]
		if next.isRenaming() && choose(2) == 1 {
			names[next.to] = next.file // beside the old name
		}
	}
	d.names = names
	d.synced = maps.Clone(names)
	d.changes = nil
	isDone := map[*inode]bool{} // a file may have two names
	for _, name := range slices.Sorted(maps.Keys(names)) {
		file := names[name]
		if !isDone[file] {
			isDone[file] = true
			file.lose(choose)
		}
	}
}

// isRenaming reports whether a file was renamed, and neither created nor removed.
func (c nameChange) isRenaming() bool { return c.from != "" && c.to != "" }

// apply makes the change in a set of names.
func (c nameChange) apply(names map[string]*inode) {
	if c.from != "" {
		delete(names, c.from)
	}
	if c.to != "" {
		names[c.to] = c.file
	}
}

// lose chooses what is left of the changes since the last sync.
func (f *inode) lose(choose func(n int) int) {
	left := f.outcomes()
	f.content = left[choose(len(left))]
	f.holder = nil
	f.synced = bytes.Clone(f.content)
	f.changes = nil
}

// outcomes returns every content that a power cut may leave: the synced one, the changes up to any of them, the last of
// which may be cut, and all changes except one.
func (f *inode) outcomes() [][]byte {
	left := [][]byte{bytes.Clone(f.synced)}
	add := func(content []byte) {
		if !slices.ContainsFunc(left, func(other []byte) bool { return bytes.Equal(other, content) }) {
			left = append(left, content)
		}
	}
	// Up to each change, and up to a part of it.
	for n, c := range f.changes {
		before := apply(f.synced, f.changes[:n])
		for _, part := range []int{1, len(c.data) / 2, len(c.data) - 2, len(c.data) - 1} {
			if part > 0 && part < len(c.data) {
				add(apply(before, []change{{c.at, c.data[:part]}}))
			}
		}
		add(apply(before, []change{c}))
	}
	// Without one change. The file is as long as with it, and has zeros or its earlier content there.
	for n, c := range f.changes {
		without := apply(f.synced, f.changes[:n])
		without = extend(without, c.end())
		add(apply(without, f.changes[n+1:]))
	}
	return left
}

// apply returns the content after the changes.
func apply(content []byte, changes []change) []byte {
	content = bytes.Clone(content)
	for _, c := range changes {
		isTruncation := c.data == nil
		content = extend(content, c.end())
		if isTruncation {
			content = content[:c.at]
		}
		copy(content[c.at:], c.data)
	}
	return content
}

// end returns where the written bytes end, or the size after a truncation.
func (c change) end() int64 { return c.at + int64(len(c.data)) }

// extend returns the content with zeros appended if it is shorter than size.
func extend(content []byte, size int64) []byte {
	missing := max(size-int64(len(content)), 0)
	return append(content, make([]byte, missing)...)
}

// Clone returns a disk with the same content, on which no file is locked.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	copies := map[*inode]*inode{} // a file that occurs several times below has one copy
	copyOf := func(file *inode) *inode {
		if file != nil && copies[file] == nil {
			copies[file] = &inode{
				content: bytes.Clone(file.content),
				synced:  bytes.Clone(file.synced),
				changes: slices.Clone(file.changes),
			}
		}
		return copies[file]
	}
	clone := New()
	for name, file := range d.names {
		clone.names[name] = copyOf(file)
	}
	for name, file := range d.synced {
		clone.synced[name] = copyOf(file)
	}
	for _, change := range d.changes {
		clone.changes = append(clone.changes, nameChange{change.from, change.to, copyOf(change.file)})
	}
	return clone
}

// Content returns what is in a file, and whether it is there.
func (d *Disk) Content(name string) ([]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil {
		return bytes.Clone(f.content), true
	}
	return nil, false
}

// Put creates a file with this content, already synced.
func (d *Disk) Put(name string, content []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	file := &inode{content: bytes.Clone(content), synced: bytes.Clone(content)}
	d.names[name] = file
	d.synced[name] = file
}

// Names returns the names of all files, sorted.
func (d *Disk) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.names))
}

// mount is the disk as a process uses it.
type mount struct {
	*Disk
	process Process
}

// do calls the mount's Process function, and then does the operation unless that function returned an error.
func (m *mount) do(op string, work func() error) error {
	if err := m.process(op); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return work()
}

// changeName makes a change that is not synced yet. The caller holds the lock.
func (m *mount) changeName(c nameChange) {
	c.apply(m.names)
	m.changes = append(m.changes, c)
}

func (m *mount) Resolve(name string) (string, error) {
	return name, m.do(Open, func() error {
		isRoot := filepath.Dir(name) == name
		if m.names[name] != nil || isRoot {
			return nil
		}
		for other := range m.names {
			if filepath.Dir(other) == name {
				return nil
			}
		}
		return fs.ErrNotExist
	})
}

func (m *mount) Open(name string, _ bool) (disk.File, error) {
	var f *file
	err := m.do(Open, func() (err error) { f, err = m.open(name); return err })
	if err != nil {
		return nil, err
	}
	return f, nil
}

// open locks and returns an existing file. The caller holds the lock of the disk.
func (m *mount) open(name string) (*file, error) {
	f := m.names[name]
	switch {
	case f == nil:
		return nil, fs.ErrNotExist
	case f.holder != nil:
		return nil, disk.ErrHeld
	}
	f.holder = m
	return &file{m, f, name}, nil
}

func (m *mount) Create(name string, _ bool) (disk.File, error) {
	var f *file
	err := m.do(Create, func() (err error) { f, err = m.create(name); return err })
	if err != nil {
		return nil, err
	}
	return f, nil
}

// create creates and locks a file. The caller holds the lock of the disk.
func (m *mount) create(name string) (*file, error) {
	if m.names[name] != nil {
		return nil, fs.ErrExist
	}
	made := &inode{holder: m}
	m.changeName(nameChange{to: name, file: made})
	return &file{m, made, name}, nil
}

// Take opens and locks a file, and creates it if it is missing. A [Process] sees one operation, Open, in both cases.
func (m *mount) Take(name string) (disk.Record, error) {
	var f *file
	err := m.do(Open, func() (err error) {
		f, err = m.open(name)
		if errors.Is(err, fs.ErrNotExist) {
			f, err = m.create(name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (m *mount) Rename(from, to string) error {
	return m.do(Rename, func() error {
		if m.names[from] == nil {
			return fs.ErrNotExist
		}
		m.changeName(nameChange{from, to, m.names[from]})
		return nil
	})
}

func (m *mount) Replace(made disk.File, from string, old disk.File, to string) (disk.File, error) {
	if err := m.Rename(from, to); err != nil {
		_ = made.Close()
		return old, err
	}
	_ = old.Close()
	return made, nil
}

func (m *mount) Remove(name string) error {
	return m.do(Remove, func() error {
		if m.names[name] == nil {
			return fs.ErrNotExist
		}
		m.changeName(nameChange{from: name})
		return nil
	})
}

// SyncDir makes the changes of names in a folder durable. A renaming belongs to the folder of the new name.
func (m *mount) SyncDir(folder string) error {
	folder = filepath.Clean(folder)
	return m.do(SyncDir, func() error {
		m.changes = slices.DeleteFunc(m.changes, func(c nameChange) (isDurable bool) {
			isInFolder := filepath.Dir(cmp.Or(c.to, c.from)) == folder
			if isInFolder {
				c.apply(m.synced)
			}
			return isInFolder
		})
		return nil
	})
}

// Lock locks a name until the closer is closed. It returns [disk.ErrHeld], and no closer, if the name is locked.
func (m *mount) Lock(name string) (io.Closer, error) {
	err := m.do(Lock, func() error {
		if m.locks[name] != nil {
			return disk.ErrHeld
		}
		m.locks[name] = m
		return nil
	})
	if err != nil {
		return nil, err
	}
	return unlock(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.locks[name] == m { // after Kill, another process may have locked it
			delete(m.locks, name)
		}
	}), nil
}

type unlock func()

func (u unlock) Close() error { u(); return nil }

// file is an open file.
type file struct {
	mount *mount
	inode *inode
	name  string
}

func (f *file) ReadAt(p []byte, at int64) (n int, err error) {
	err = f.mount.do(Read, func() error {
		n, err = bytes.NewReader(f.inode.content).ReadAt(p, at)
		return err
	})
	return n, err
}

func (f *file) IsAt(name string) error {
	return f.mount.do(IsAt, func() error {
		if f.mount.names[name] != f.inode {
			return disk.ErrMoved
		}
		return nil
	})
}

// change makes a change that is not synced yet. Bytes that are appended do not need a copy of the content: synced,
// which may share its array, has no room for them.
func (f *file) change(c change) error {
	isAppended := c.data != nil && c.at == int64(len(f.inode.content))
	if isAppended {
		f.inode.content = append(f.inode.content, c.data...)
	} else {
		f.inode.content = slices.Clip(apply(f.inode.content, []change{c}))
	}
	f.inode.changes = append(f.inode.changes, c)
	return nil
}

const atEnd = -1 // instead of an offset

func (f *file) Write(p []byte) (int, error) { return f.write(p, atEnd) }

func (f *file) WriteAt(p []byte, at int64) (int, error) { return f.write(p, at) }

// write writes at an offset, or at the end. Of a write that fails because the disk is full, a third is done.
func (f *file) write(p []byte, at int64) (int, error) {
	err := f.mount.process(Write)
	switch {
	case errors.Is(err, syscall.ENOSPC):
		p = p[:len(p)/3]
	case err != nil:
		return 0, err
	}
	f.mount.mu.Lock()
	defer f.mount.mu.Unlock()
	if at == atEnd {
		at = int64(len(f.inode.content))
	}
	if len(p) > 0 {
		_ = f.change(change{at, bytes.Clone(p)})
	}
	return len(p), err
}

func (f *file) Truncate(size int64) error {
	return f.mount.do(Truncate, func() error { return f.change(change{at: size}) })
}

func (f *file) Sync() error {
	return f.mount.do(Sync, func() error {
		f.inode.synced = slices.Clip(f.inode.content)
		f.inode.changes = nil
		return nil
	})
}

// Close unlocks the file. It also works after a power cut.
func (f *file) Close() error {
	f.mount.mu.Lock()
	defer f.mount.mu.Unlock()
	if f.inode.holder == f.mount {
		f.inode.holder = nil
	}
	return nil
}

func (f *file) Remove() error { return errors.Join(f.mount.Remove(f.name), f.Close()) }

func (f *file) CheckPrivate() error { return nil }
