package simulation

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/filelock"
)

// platter is a machine's disk, of which a power cut leaves what was synced and any part of the rest.
type platter struct {
	mu      sync.Mutex
	names   map[string]*inode
	synced  map[string]*inode // the names that a power cut leaves
	holders map[string]*life  // of locks
}

type inode struct {
	content, synced []byte
	holder          *life
}

func newPlatter() *platter {
	return &platter{names: map[string]*inode{}, synced: map[string]*inode{}, holders: map[string]*life{}}
}

// crash is the end of a process: by a signal, which loses nothing that was written, or by a power cut.
func (p *platter) crash(d *draws, powerCut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.holders)
	for _, file := range p.names {
		file.holder = nil
	}
	for _, file := range p.synced {
		file.holder = nil
	}
	if !powerCut {
		return
	}
	if d.chance(0.5) {
		p.names = maps.Clone(p.synced)
	}
	for _, name := range []string{journalPath, journalPath + ".new"} {
		if file := p.names[name]; file != nil {
			file.lose(d)
		}
	}
	p.synced = maps.Clone(p.names)
}

// lose keeps any part of what was appended since the last sync, or one of both contents where it was cut.
func (f *inode) lose(d *draws) {
	switch rest, appended := bytes.CutPrefix(f.content, f.synced); {
	case appended:
		f.content = append(bytes.Clone(f.synced), rest[:d.below(len(rest)+1)]...)
	case d.chance(0.5):
		f.content = bytes.Clone(f.synced)
	}
	f.synced = bytes.Clone(f.content)
}

// mount is the disk in the hands of one life.
type mount struct {
	*platter
	life *life
}

func (m mount) Resolve(name string) (string, error) {
	if err := m.life.touch(); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if name != "/" && m.names[name] == nil {
		return "", fs.ErrNotExist
	}
	return name, nil
}

func (m mount) Open(name string, _ bool) (disk.File, error) {
	if err := m.life.touch(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	file := m.names[name]
	switch {
	case file == nil:
		return nil, fs.ErrNotExist
	case file.holder != nil:
		return nil, filelock.ErrHeld
	}
	file.holder = m.life
	return &openFile{mount: m, file: file}, nil
}

func (m mount) Create(name string, _ bool) (disk.File, error) {
	if err := m.life.touch(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names[name] != nil {
		return nil, fs.ErrExist
	}
	m.names[name] = &inode{holder: m.life}
	return &openFile{mount: m, file: m.names[name]}, nil
}

func (m mount) Replace(made disk.File, from string, old disk.File, to string) (disk.File, error) {
	if err := m.life.touch(); err != nil {
		return old, err
	}
	m.mu.Lock()
	m.names[to] = m.names[from]
	delete(m.names, from)
	m.mu.Unlock()
	return made, old.Close()
}

func (m mount) Remove(name string) error {
	if err := m.life.touch(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names[name] == nil {
		return fs.ErrNotExist
	}
	delete(m.names, name)
	return nil
}

func (m mount) SyncDir(string) error {
	if err := m.life.sync(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = maps.Clone(m.names)
	return nil
}

func (m mount) Lock(name string) (io.Closer, error) {
	if err := m.life.touch(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holders[name] != nil {
		return nil, filelock.ErrHeld
	}
	m.holders[name] = m.life
	return unlocker(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.holders[name] == m.life {
			delete(m.holders, name)
		}
	}), nil
}

type unlocker func()

func (u unlocker) Close() error { u(); return nil }

// openFile is an open file.
type openFile struct {
	mount
	file *inode
}

func (h *openFile) ReadAt(p []byte, at int64) (int, error) {
	if err := h.life.touch(); err != nil {
		return 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.NewReader(h.file.content).ReadAt(p, at)
}

func (h *openFile) IsAt(name string) error {
	if err := h.life.touch(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names[name] != h.file {
		return disk.ErrMoved
	}
	return nil
}

func (h *openFile) Write(p []byte) (int, error) {
	if err := h.life.touch(); err != nil {
		return 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.file.content = append(h.file.content, p...)
	return len(p), nil
}

func (h *openFile) Truncate(size int64) error {
	if err := h.life.touch(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.file.content = h.file.content[:size:size]
	return nil
}

// Sync takes time, in which the power may fail.
func (h *openFile) Sync() error {
	if err := h.life.sync(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.file.synced = bytes.Clone(h.file.content)
	return nil
}

func (h *openFile) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.file.holder == h.life {
		h.file.holder = nil
	}
	return nil
}

// life is one run of a process. When it is dead, all that leaves it or comes to it stands still until the end of the world:
// nothing of it runs on, which is as near to a kill as it gets.
type life struct {
	number  int
	mu      sync.Mutex
	dead    chan struct{} // closed by its death
	release <-chan struct{}
	draws   *draws
}

var errDead = errors.New("the process is dead")

// touch lets a living process pass.
func (l *life) touch() error {
	select {
	case <-l.dead:
		<-l.release
		return errDead
	default:
		return nil
	}
}

// sync is how long the disk takes. What was asked for before death may still be done, or not.
func (l *life) sync() error {
	if err := l.touch(); err != nil {
		return err
	}
	l.mu.Lock()
	takes := time.Duration(1+l.draws.below(20)) * time.Millisecond
	l.mu.Unlock()
	time.Sleep(takes)
	return l.touch()
}
