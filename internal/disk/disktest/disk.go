// Package disktest is the model of a disk for tests. The next process sees immediately what a process wrote, but a
// power cut leaves only what was synced, and any part of the rest.
package disktest

import (
	"bytes"
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
	synced  map[string]*inode // the names that a power cut surely leaves
	renamed []rename          // since then, in this order
	locks   map[string]*mount
}

// rename is a change of names: made (from is empty), removed (to is empty), or both at once.
type rename struct {
	from, to string
	file     *inode
}

// inode is a file, whatever its name.
type inode struct {
	content, synced []byte
	changes         []change // since then, in this order
	holder          *mount
}

// change is a write, or a cut where data is nil.
type change struct {
	at   int64
	data []byte
}

// New returns an empty disk.
func New() *Disk {
	return &Disk{names: map[string]*inode{}, synced: map[string]*inode{}, locks: map[string]*mount{}}
}

// Process is asked before each operation, by the operation's name, whether it is done: it may take time, as a sync
// does, and an error refuses it. Of a write that is refused with [syscall.ENOSPC] a third is done, as full disks do.
type Process func(op string) error

// The operations of a process.
const (
	Open     = "open" // the first four change nothing
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

// Mount gives the disk into the hands of a process; nil: one that may do everything.
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

// PowerCut ends all processes, and loses what was not synced as choose says, which returns a number below n. Changes of
// names reach the disk in their order, the last of them perhaps half: a file that was renamed has both names then. Of
// what was written to a file any beginning may be there, cut anywhere, and later writes without an earlier one.
func (d *Disk) PowerCut(choose func(n int) int) {
	d.Kill()
	d.mu.Lock()
	defer d.mu.Unlock()
	names := maps.Clone(d.synced)
	kept := choose(len(d.renamed) + 1)
	for _, r := range d.renamed[:kept] {
		r.apply(names)
	}
	if rest := d.renamed[kept:]; len(rest) > 0 && rest[0].from != "" && rest[0].to != "" && choose(2) == 1 {
		names[rest[0].to] = rest[0].file
	}
	d.names, d.synced, d.renamed = names, maps.Clone(names), nil
	lost := map[*inode]bool{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if file := names[name]; !lost[file] {
			lost[file] = true
			file.lose(choose)
		}
	}
}

func (r rename) apply(names map[string]*inode) {
	if r.from != "" {
		delete(names, r.from)
	}
	if r.to != "" {
		names[r.to] = r.file
	}
}

// lose chooses what is left of the changes since the last sync.
func (f *inode) lose(choose func(n int) int) {
	left := f.outcomes()
	f.content = left[choose(len(left))]
	f.holder, f.synced, f.changes = nil, bytes.Clone(f.content), nil
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
		if end := c.at + int64(len(c.data)); int64(len(without)) < end {
			without = append(without, make([]byte, end-int64(len(without)))...)
		}
		add(apply(without, f.changes[n+1:]))
	}
	return left
}

// apply returns the content after the changes.
func apply(content []byte, changes []change) []byte {
	content = bytes.Clone(content)
	for _, c := range changes {
		switch end := c.at + int64(len(c.data)); {
		case c.data == nil && c.at <= int64(len(content)):
			content = content[:c.at]
			continue
		case int64(len(content)) < end:
			content = append(content, make([]byte, end-int64(len(content)))...)
		}
		copy(content[c.at:], c.data)
	}
	return content
}

// Clone returns a disk with the same content, which nobody holds.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	copies := map[*inode]*inode{}
	file := func(f *inode) *inode {
		if f != nil && copies[f] == nil {
			copies[f] = &inode{
				content: bytes.Clone(f.content), synced: bytes.Clone(f.synced), changes: slices.Clone(f.changes),
			}
		}
		return copies[f]
	}
	c := New()
	for name, f := range d.names {
		c.names[name] = file(f)
	}
	for name, f := range d.synced {
		c.synced[name] = file(f)
	}
	for _, r := range d.renamed {
		c.renamed = append(c.renamed, rename{r.from, r.to, file(r.file)})
	}
	return c
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

// Put makes a file with this content, on the disk.
func (d *Disk) Put(name string, content []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	file := &inode{content: bytes.Clone(content), synced: bytes.Clone(content)}
	d.names[name], d.synced[name] = file, file
}

// Names are those of all files, in order.
func (d *Disk) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.names))
}

// mount is the disk in the hands of a process.
type mount struct {
	*Disk
	process Process
}

// do does an operation if the process may.
func (m *mount) do(op string, work func() error) error {
	if err := m.process(op); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return work()
}

func (m *mount) rename(r rename) {
	r.apply(m.names)
	m.renamed = append(m.renamed, r)
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

func (m *mount) create(name string) (*file, error) {
	if m.names[name] != nil {
		return nil, fs.ErrExist
	}
	made := &inode{holder: m}
	m.rename(rename{to: name, file: made})
	return &file{m, made, name}, nil
}

func (m *mount) Take(name string) (disk.Record, error) {
	var f *file
	err := m.do(Open, func() (err error) {
		if f, err = m.open(name); errors.Is(err, fs.ErrNotExist) {
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
		m.rename(rename{from, to, m.names[from]})
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
		m.rename(rename{from: name})
		return nil
	})
}

func (m *mount) SyncDir(folder string) error {
	folder = filepath.Clean(folder)
	return m.do(SyncDir, func() error {
		m.renamed = slices.DeleteFunc(m.renamed, func(r rename) bool {
			is := filepath.Dir(r.from+r.to) == folder
			if r.from != "" && r.to != "" {
				is = filepath.Dir(r.to) == folder
			}
			if is {
				r.apply(m.synced)
			}
			return is
		})
		return nil
	})
}

func (m *mount) Lock(name string) (io.Closer, error) {
	err := m.do(Lock, func() error {
		if m.locks[name] != nil {
			return disk.ErrHeld
		}
		m.locks[name] = m
		return nil
	})
	return unlock(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.locks[name] == m {
			delete(m.locks, name)
		}
	}), err
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

// change makes a change that is not on the disk yet. What is only appended leaves the array to what was synced.
func (f *file) change(c change) error {
	if size := int64(len(f.inode.content)); c.data != nil && c.at == size {
		f.inode.content = append(f.inode.content, c.data...)
	} else {
		f.inode.content = slices.Clip(apply(f.inode.content, []change{c}))
	}
	f.inode.changes = append(f.inode.changes, c)
	return nil
}

func (f *file) Write(p []byte) (int, error) { return f.write(p, -1) }

func (f *file) WriteAt(p []byte, at int64) (int, error) { return f.write(p, at) }

// write writes at the end if at is negative.
func (f *file) write(p []byte, at int64) (int, error) {
	full := f.mount.process(Write)
	switch {
	case errors.Is(full, syscall.ENOSPC):
		p = p[:len(p)/3]
	case full != nil:
		return 0, full
	}
	f.mount.mu.Lock()
	defer f.mount.mu.Unlock()
	if at < 0 {
		at = int64(len(f.inode.content))
	}
	if len(p) > 0 {
		_ = f.change(change{at, bytes.Clone(p)})
	}
	return len(p), full
}

func (f *file) Truncate(size int64) error {
	return f.mount.do(Truncate, func() error { return f.change(change{at: size}) })
}

func (f *file) Sync() error {
	return f.mount.do(Sync, func() error {
		f.inode.synced, f.inode.changes = slices.Clip(f.inode.content), nil
		return nil
	})
}

// Close is done by the dead as well.
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
