// Command cdi-validate checks CDI specs with the library of CDI itself.
//
//	cdi-validate DIRECTORY...           each directory is one that a container runtime would read
//	cdi-validate --inject DIRECTORY...  and each of their devices is added to a container of user 1000:1001
//
// Without --inject the device nodes need not be on this machine.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

func main() {
	inject := flag.Bool("inject", false, "add each device to a container")
	flag.Parse()
	failed := false
	for _, directory := range flag.Args() {
		if err := check(directory, *inject); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", directory, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

func check(directory string, inject bool) error {
	files, err := filepath.Glob(filepath.Join(directory, "*"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("no spec")
	}
	for _, file := range files {
		spec, err := cdi.ReadSpec(file, 0)
		if err != nil {
			return err
		}
		// Runtimes ignore specs that are newer than they are.
		if lowest, err := specs.MinimumRequiredVersion(spec.Spec); err != nil {
			return err
		} else if spec.Version != lowest {
			return fmt.Errorf("%s: version %s, but %s suffices", file, spec.Version, lowest)
		}
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(directory), cdi.WithAutoRefresh(false))
	if err != nil {
		return err
	}
	for file, mistakes := range cache.GetErrors() {
		return fmt.Errorf("%s: %w", file, errors.Join(mistakes...))
	}
	for _, device := range cache.ListDevices() {
		fmt.Println(device)
		if inject {
			if err := add(cache, device); err != nil {
				return err
			}
		}
	}
	return nil
}

func add(cache *cdi.Cache, device string) error {
	user := oci.User{UID: 1000, GID: 1001}
	container := &oci.Spec{Process: &oci.Process{User: user}, Linux: &oci.Linux{}}
	if _, err := cache.InjectDevices(container, device); err != nil {
		return err
	}
	for _, node := range container.Linux.Devices {
		if node.UID == nil || *node.UID != user.UID || node.GID == nil || *node.GID != user.GID {
			return fmt.Errorf("%s: %s does not belong to the container's user", device, node.Path)
		}
	}
	return nil
}
