// Renders a Helm chart as `helm template` does, for machines without Helm: Go's text/template with the functions of Sprig.
// Reads {"folder", "context"} as JSON from standard input, and writes {"file": "text"} or {"error": "message"}.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
)

func main() {
	var input struct {
		Folder  string
		Context map[string]any
	}
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		panic(err)
	}
	output, err := render(input.Folder, input.Context)
	if err != nil {
		output = map[string]string{"error": err.Error()}
	}
	if err := json.NewEncoder(os.Stdout).Encode(output); err != nil {
		panic(err)
	}
}

func render(folder string, context map[string]any) (map[string]string, error) {
	root := template.New("chart").Option("missingkey=zero")
	functions := sprig.TxtFuncMap()
	// The functions that Helm adds.
	functions["toYaml"] = toYaml
	functions["required"] = func(message string, value any) (any, error) {
		if value == nil || value == "" {
			return nil, errors.New(message)
		}
		return value, nil
	}
	functions["include"] = func(name string, data any) (string, error) {
		var text bytes.Buffer
		err := root.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	root.Funcs(functions)
	files, err := filepath.Glob(filepath.Join(folder, "templates", "*"))
	if err != nil {
		return nil, err
	}
	context["Template"] = map[string]any{"BasePath": "templates"}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if _, err := root.New("templates/" + filepath.Base(file)).Parse(string(text)); err != nil {
			return nil, err
		}
	}
	output := map[string]string{}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "_helpers.tpl" {
			continue
		}
		var text bytes.Buffer
		if err := root.ExecuteTemplate(&text, "templates/"+name, context); err != nil {
			return nil, err
		}
		output[name] = text.String()
	}
	return output, nil
}

// toYaml writes one line for each field or item, whose value is JSON, which is YAML too.
func toYaml(value any) (string, error) {
	lines := []string{}
	add := func(prefix string, value any) error {
		text, err := json.Marshal(value)
		lines = append(lines, prefix+string(text))
		return err
	}
	switch typed := value.(type) {
	case map[string]any:
		for name, field := range typed {
			if err := add(name+": ", field); err != nil {
				return "", err
			}
		}
		sort.Strings(lines)
	case []any:
		for _, item := range typed {
			if err := add("- ", item); err != nil {
				return "", err
			}
		}
	default:
		if err := add("", value); err != nil {
			return "", err
		}
	}
	return strings.Join(lines, "\n"), nil
}
