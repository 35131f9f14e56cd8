/* What the layer is asked to do: a file beside the library, and the environment. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "layer.h"

static const size_t MIB = (size_t)1 << 20;
static char problem[4096];

static char* trimmed(char* text) {
  while (*text == ' ' || *text == '\t') ++text;
  size_t length = strlen(text);
  while (length && strchr(" \t\r\n", text[length - 1]) != NULL) text[--length] = '\0';
  return text;
}

static bool take_text(char** where, const char* value) {
  free(*where);
  *where = value[0] != '\0' ? strdup(value) : NULL;
  return value[0] == '\0' || *where != NULL;
}

/* Returns whether there is such a setting, and the value is one of it. */
static bool take_setting(Settings* settings, const char* key, const char* value) {
  if (strcmp(key, "plugin") == 0) return take_text(&settings->plugin, value);
  if (strcmp(key, "trace") == 0) return take_text(&settings->trace, value);
  if (strcmp(key, "only") == 0) return take_text(&settings->only, value);
  if (strcmp(key, "graphs") == 0) {
    settings->graphs = strcmp(value, "1") == 0;
    return settings->graphs || strcmp(value, "0") == 0 || value[0] == '\0';
  }
  if (strcmp(key, "findings") == 0) return take_text(&settings->findings, value);
  if (strcmp(key, "bounds") == 0) {
    settings->bounds = strcmp(value, "1") == 0;
    return settings->bounds || strcmp(value, "0") == 0;
  }
  if (strcmp(key, "reads") == 0) {
    settings->reads = strcmp(value, "1") == 0;
    return settings->reads || strcmp(value, "0") == 0;
  }
  if (strcmp(key, "validate") == 0) {
    settings->raises = strcmp(value, "raise") == 0;
    settings->validate = settings->raises || strcmp(value, "log") == 0;
    return settings->validate || value[0] == '\0';
  }
  if (strcmp(key, "trace_megabytes") == 0) {
    char* end = NULL;
    unsigned long megabytes = strtoul(value, &end, 10);
    settings->trace_bytes = megabytes * MIB;
    return end != value && *end == '\0' && megabytes > 0 && megabytes < MIB;
  }
  return false;
}

static const char* read_file(Settings* settings, const char* path) {
  FILE* file = fopen(path, "r");
  if (file == NULL) return NULL; /* the environment may say all */
  char* line = NULL;
  size_t room = 0;
  while (problem[0] == '\0' && getline(&line, &room, file) >= 0) {
    char* key = trimmed(line);
    char* value = strchr(key, '=');
    if (key[0] == '\0' || key[0] == '#') continue;
    if (value != NULL) *value++ = '\0';
    if (value == NULL || !take_setting(settings, trimmed(key), trimmed(value))) {
      (void)snprintf(problem, sizeof problem, "the layer's settings %.3000s have a line that is none: %.500s",
                     path, key);
    }
  }
  free(line);
  (void)fclose(file);
  return problem[0] != '\0' ? problem : NULL;
}

const char* settings_read(Settings* settings) {
  static const char* const keys[][2] = {{"EPHOST_LAYER_PLUGIN", "plugin"},
                                        {"EPHOST_LAYER_TRACE", "trace"},
                                        {"EPHOST_LAYER_ONLY", "only"},
                                        {"EPHOST_LAYER_GRAPHS", "graphs"},
                                        {"EPHOST_LAYER_TRACE_MEGABYTES", "trace_megabytes"},
                                        {"EPHOST_LAYER_VALIDATE", "validate"},
                                        {"EPHOST_LAYER_BOUNDS", "bounds"},
                                        {"EPHOST_LAYER_READS", "reads"},
                                        {"EPHOST_LAYER_FINDINGS", "findings"}};
  char** texts[] = {&settings->plugin, &settings->trace, &settings->only, &settings->findings};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
    free(*texts[i]);
    *texts[i] = NULL;
  }
  settings->graphs = settings->validate = settings->raises = false;
  settings->bounds = true;
  settings->reads = false;
  settings->trace_bytes = 1024 * MIB;
  problem[0] = '\0';
  Dl_info self;
  char path[4096];
  if (dladdr((void*)&problem, &self) != 0 &&
      snprintf(path, sizeof path, "%s.layer", self.dli_fname) < (int)sizeof path &&
      read_file(settings, path) != NULL) {
    return problem;
  }
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; ++i) {
    const char* value = getenv(keys[i][0]);
    if (value != NULL && !take_setting(settings, keys[i][1], value)) {
      (void)snprintf(problem, sizeof problem, "%s is not a value of the layer's %s: %.500s", keys[i][0],
                     keys[i][1], value);
      return problem;
    }
  }
  if (settings->plugin == NULL) {
    (void)snprintf(problem, sizeof problem,
                   "the layer does not know which plugin it stands for: %.3000s (plugin = PATH) or "
                   "EPHOST_LAYER_PLUGIN says so",
                   path);
    return problem;
  }
  return NULL;
}
