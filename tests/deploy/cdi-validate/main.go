// Command cdi-validate checks CDI specs with the library of CDI itself.
//
//	cdi-validate DIRECTORY...  each directory is one that a container runtime would read
//
// The device nodes need not be on this machine.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

func main() {
	failed := false
	for _, directory := range os.Args[1:] {
		if err := check(directory); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", directory, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

func check(directory string) error {
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
	}
	return nil
}
