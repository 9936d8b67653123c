package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// place is where a journal may have to live.
type place struct {
	name string
	try  func(context.Context, *trial) error
}

var places = []place{
	{"an ordinary folder", func(ctx context.Context, t *trial) error {
		path := filepath.Join(t.dir, "uploads.journal")
		return t.night(ctx, process{journal: path}, process{journal: path})
	}},
	{"one file, bind-mounted twice", func(ctx context.Context, t *trial) error {
		path := filepath.Join(t.dir, "uploads.journal")
		t.record(20)
		if code := t.upload(ctx, process{journal: path, begin: true}); code != 0 {
			return fmt.Errorf("exit code %d", code)
		}
		var names []string
		for _, container := range []string{"one", "two"} {
			dir := filepath.Join(t.dir, container)
			name := filepath.Join(dir, "uploads.journal")
			if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(name, nil, 0o600)); err != nil {
				return err
			}
			if err := t.mount(ctx, name, "mount", "--bind", path, name); err != nil {
				return err
			}
			names = append(names, name)
		}
		return t.rest(ctx, process{journal: names[0]}, process{journal: names[1]})
	}},
	{"gocryptfs", func(ctx context.Context, t *trial) error {
		dir, err := t.fuse(ctx, "gocryptfs", func(plain, cipher string) [][]string {
			return [][]string{
				{"gocryptfs", "-q", "-init", "-scryptn", "10", "-extpass", "echo synthetic", cipher},
				{"gocryptfs", "-q", "-extpass", "echo synthetic", cipher, plain},
			}
		})
		if err != nil {
			return err
		}
		return t.night(ctx, process{journal: filepath.Join(dir, "uploads.journal")}, process{journal: filepath.Join(dir, "uploads.journal")})
	}},
	{"bindfs", func(ctx context.Context, t *trial) error {
		dir, err := t.fuse(ctx, "bindfs", func(mirror, from string) [][]string { return [][]string{{"bindfs", from, mirror}} })
		if err != nil {
			return err
		}
		return t.night(ctx, process{journal: filepath.Join(dir, "uploads.journal")}, process{journal: filepath.Join(dir, "uploads.journal")})
	}},
	{"bindfs, and the folder behind it", func(ctx context.Context, t *trial) error {
		// Locks on the one are not seen on the other: what each writes is.
		dir, err := t.fuse(ctx, "bindfs", func(mirror, from string) [][]string {
			return [][]string{{"bindfs", "-o", "attr_timeout=0", from, mirror}}
		})
		if err != nil {
			return err
		}
		return t.night(ctx, process{journal: filepath.Join(dir, "uploads.journal")}, process{journal: filepath.Join(t.dir, "behind", "uploads.journal")})
	}},
	{"exfat-fuse", func(ctx context.Context, t *trial) error {
		dir, err := t.fuse(ctx, "mount.exfat-fuse", func(at, behind string) [][]string {
			image := filepath.Join(behind, "image")
			loop := `device=$(losetup -f --show "$1") && mount.exfat-fuse -o umask=077 "$device" "$2"; code=$?; losetup -d "$device"; exit $code` // it goes with the mount
			return [][]string{{"truncate", "-s", "32M", image}, {"mkfs.exfat", image}, {"bash", "-c", loop, "-", image, at}}
		})
		if err != nil {
			return err
		}
		// Its names have no case: two spellings are one file.
		return t.night(ctx, process{journal: filepath.Join(dir, "uploads.journal")}, process{journal: filepath.Join(dir, "UPLOADS.journal")})
	}},
	{"a tmpfs of 64 KiB that is full, then larger", func(ctx context.Context, t *trial) error {
		dir := filepath.Join(t.dir, "small")
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		if err := t.mount(ctx, dir, "mount", "-t", "tmpfs", "-o", "size=64k", "none", dir); err != nil {
			return err
		}
		p := process{journal: filepath.Join(dir, "uploads.journal"), begin: true}
		t.record(400)
		if code := t.upload(ctx, p); code == 0 {
			return errors.New("the disk was not full")
		}
		t.upload(ctx, p)
		if err := command(ctx, "mount", "-o", "remount,size=4m", dir); err != nil {
			return err
		}
		return t.last(ctx, p)
	}},
	{"32 descriptors, 16 workers", func(ctx context.Context, t *trial) error {
		p := process{journal: filepath.Join(t.dir, "uploads.journal"), workers: 16, patient: true, prefix: []string{"bash", "-c", `ulimit -n 32; exec "$@"`, "-"}}
		return t.night(ctx, p, p)
	}},
	{"an empty environment", func(ctx context.Context, t *trial) error {
		p := process{journal: filepath.Join(t.dir, "uploads.journal"), env: []string{}}
		t.record(20)
		if code := t.upload(ctx, p); code == 0 || len(t.box.Notes()) > 0 {
			return errors.New("it uploads without a place for its report")
		}
		p.env = []string{"CLINICALDOC_STATE_DIR=" + t.dir}
		return t.night(ctx, p, p)
	}},
	{"another HOME, its journal begun anew", func(ctx context.Context, t *trial) error {
		for n := range 3 {
			home := filepath.Join(t.dir, fmt.Sprint("home", n))
			if err := os.Mkdir(home, 0o700); err != nil {
				return err
			}
			t.record(20 * (n + 1))
			if err := t.last(ctx, process{env: []string{"HOME=" + home}, begin: true}); err != nil {
				return err
			}
		}
		return nil
	}},
	{"the version before, beside this one", func(ctx context.Context, t *trial) error {
		if t.earlier == "" {
			return absentError{t.noEarlier}
		}
		path := filepath.Join(t.dir, "uploads.journal")
		t.record(20)
		if code := t.upload(ctx, process{program: t.earlier, journal: path}); code != 0 {
			return fmt.Errorf("the version before: exit code %d", code)
		}
		return t.rest(ctx, process{program: t.earlier, journal: path}, process{journal: path})
	}},
}

// night is some runs: one that begins the journal, two at once by two names, one that is killed, and one to the end.
func (t *trial) night(ctx context.Context, one, two process) error {
	t.record(20)
	begin := one
	begin.begin = true
	if code := t.upload(ctx, begin); code != 0 {
		return fmt.Errorf("the first run: exit code %d", code)
	}
	return t.rest(ctx, one, two)
}

func (t *trial) rest(ctx context.Context, one, two process) error {
	t.record(120)
	var both sync.WaitGroup
	for _, p := range []process{one, two} {
		both.Go(func() { t.upload(ctx, p) })
	}
	both.Wait()
	for n, p := range []process{one, two} {
		t.record(160 + 40*n)
		killed, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		t.upload(killed, p)
		cancel()
	}
	return t.last(ctx, two)
}

// last is a run that has to come to its end.
func (t *trial) last(ctx context.Context, p process) error {
	if code := t.upload(ctx, p); code != 0 {
		return fmt.Errorf("the last run: exit code %d", code)
	}
	return nil
}

// mount does it and undoes it in the end.
func (t *trial) mount(ctx context.Context, at, name string, args ...string) error {
	if os.Getuid() != 0 {
		return absentError{"only root can mount"}
	}
	if err := command(ctx, name, args...); err != nil {
		return absentError{err.Error()}
	}
	t.undo = append(t.undo, func() { _ = exec.Command("umount", "-l", at).Run() }) //nolint:noctx // after the end, too
	return nil
}

// fuse mounts a file system in user space and returns where it is. The last of the commands mounts it.
func (t *trial) fuse(ctx context.Context, program string, commands func(at, behind string) [][]string) (string, error) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return "", absentError{"there is no /dev/fuse"}
	}
	if _, err := exec.LookPath(program); err != nil {
		return "", absentError{program + " is not installed"}
	}
	at, behind := filepath.Join(t.dir, "at"), filepath.Join(t.dir, "behind")
	if err := errors.Join(os.Mkdir(at, 0o700), os.Mkdir(behind, 0o700)); err != nil {
		return "", err
	}
	list := commands(at, behind)
	for _, c := range list[:len(list)-1] {
		if err := command(ctx, c[0], c[1:]...); err != nil {
			return "", absentError{err.Error()}
		}
	}
	mount := list[len(list)-1]
	return at, t.mount(ctx, at, mount[0], mount[1:]...)
}
