#include "format/hub.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/file.h"
#include "base/log.h"
#include "format/checkpoint.h"

enum { PATH_BYTES = 4096, PART_MAX = 96, COMMIT_LEN = 40, REF_BYTES_MAX = 4096 };

struct hub_name {
    char org[PART_MAX + 1], name[PART_MAX + 1];
    char commit[COMMIT_LEN + 1]; // "" when the name gives none
};

static bool is_commit(const char *text, size_t len) {
    return len == COMMIT_LEN && strspn(text, "0123456789abcdefABCDEF") >= COMMIT_LEN;
}

// One part of a repository id.
static bool take_part(char out[PART_MAX + 1], const char *text, size_t len) {
    if (len == 0 || len > PART_MAX || strchr(".-", text[0]) || strchr(".-", text[len - 1]))
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!alnum && !(c && strchr("._-", c)))
            return false;
        if (i > 0 && (c == '.' || c == '-') && text[i - 1] == c)
            return false;
    }
    memcpy(out, text, len);
    out[len] = 0;
    return true;
}

static bool parse_name(struct hub_name *out, const char *model) {
    const char *slash = strchr(model, '/'), *at = strchr(model, '@');
    if (!slash || (at && at < slash))
        return false;
    size_t len = at ? (size_t)(at - slash - 1) : strlen(slash + 1);
    *out = (struct hub_name){0};
    if (at && !is_commit(at + 1, strlen(at + 1)))
        return false;
    if (at)
        memcpy(out->commit, at + 1, COMMIT_LEN);
    return take_part(out->org, model, (size_t)(slash - model)) &&
           take_part(out->name, slash + 1, len);
}

static enum lf_status join(char path[PATH_BYTES], const char *folder, const char *name,
                           struct lf_error *err) {
    int len = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    if (len < 0 || len >= PATH_BYTES)
        return lf_fail(err, LF_E_TOO_LARGE, "the path of %s is too long", name);
    return LF_OK;
}

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static enum lf_status cache_root(char root[PATH_BYTES], struct lf_error *err) {
    static const struct {
        const char *variable, *below;
    } places[] = {
        {"HF_HUB_CACHE", ""},
        {"HUGGINGFACE_HUB_CACHE", ""},
        {"HF_HOME", "/hub"},
        {"XDG_CACHE_HOME", "/huggingface/hub"},
        {"HOME", "/.cache/huggingface/hub"},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i].variable);
        if (!value || !value[0])
            continue;
        int len = snprintf(root, PATH_BYTES, "%s%s", value, places[i].below);
        if (len < 0 || len >= PATH_BYTES)
            return lf_fail(err, LF_E_TOO_LARGE, "the path in %s is too long", places[i].variable);
        return LF_OK;
    }
    return lf_fail(err, LF_E_MISSING, "no hub cache: HF_HUB_CACHE, HF_HOME and HOME are not set");
}

// The commit in refs/main; *found is false when the file is not there.
static enum lf_status read_ref(char commit[COMMIT_LEN + 1], bool *found, const char *repository,
                               struct lf_error *err) {
    char path[PATH_BYTES];
    struct lf_buffer text = {0};
    struct lf_error inner = LF_ERROR_INIT;
    *found = false;
    LF_TRY(join(path, repository, "refs/main", err));
    if (lf_file_read(&text, path, REF_BYTES_MAX, &inner) != LF_OK) {
        if (inner.cause != ENOENT)
            *err = inner;
    } else {
        while (text.len && strchr(" \t\r\n", text.data[text.len - 1]))
            text.len--;
        *found = is_commit(text.data, text.len);
        if (*found)
            memcpy(commit, text.data, COMMIT_LEN);
        else
            lf_fail(err, LF_E_FORMAT, "%s must hold a commit of 40 hex digits", path);
    }
    lf_buffer_free(&text);
    return err->status;
}

// Without a ref the only snapshot counts; of several none is picked.
static enum lf_status only_snapshot(char commit[COMMIT_LEN + 1], const struct hub_name *hub,
                                    const char *repository, struct lf_error *err) {
    char path[PATH_BYTES];
    size_t found = 0;
    LF_TRY(join(path, repository, "snapshots", err));
    DIR *dir = opendir(path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        if (!is_commit(entry->d_name, strlen(entry->d_name)))
            continue;
        memcpy(commit, entry->d_name, COMMIT_LEN);
        found++;
    }
    if (dir)
        closedir(dir);
    if (found == 0)
        return lf_fail(err, LF_E_MISSING, "%s has no snapshot; run: hf download %s/%s", repository,
                       hub->org, hub->name);
    if (found > 1)
        return lf_fail(err, LF_E_MISSING,
                       "%s has %zu snapshots and no refs/main; name one as %s/%s@COMMIT",
                       repository, found, hub->org, hub->name);
    lf_log(LF_LOG_INFO, "%s/%s has no refs/main: using its only snapshot, %s", hub->org, hub->name,
           commit);
    return LF_OK;
}

static enum lf_status find_snapshot(char folder[PATH_BYTES], struct hub_name *hub,
                                    struct lf_error *err) {
    char root[PATH_BYTES], repository[PATH_BYTES], name[2 * PART_MAX + 32];
    bool named = hub->commit[0] != 0, found = named;
    LF_TRY(cache_root(root, err));
    snprintf(name, sizeof name, "models--%s--%s", hub->org, hub->name);
    LF_TRY(join(repository, root, name, err));
    if (!is_folder(repository))
        return lf_fail(err, LF_E_MISSING,
                       "%s/%s is neither a folder nor in the hub cache %s; run: hf download %s/%s",
                       hub->org, hub->name, root, hub->org, hub->name);
    if (!named)
        LF_TRY(read_ref(hub->commit, &found, repository, err));
    if (!found)
        LF_TRY(only_snapshot(hub->commit, hub, repository, err));
    snprintf(name, sizeof name, "snapshots/%s", hub->commit);
    LF_TRY(join(folder, repository, name, err));
    if (!is_folder(folder))
        return lf_fail(err, LF_E_MISSING,
                       "%s/%s: snapshot %s is not in the hub cache; run: hf download %s/%s"
                       " --revision %s",
                       hub->org, hub->name, hub->commit, hub->org, hub->name, hub->commit);
    return LF_OK;
}

enum lf_status lf_model_find(char *folder, size_t folder_bytes, const char *model,
                             struct lf_error *err) {
    char path[PATH_BYTES];
    const char *result = model;
    struct hub_name hub;
    struct stat st;
    size_t len = strlen(model);
    // A local path wins, whatever the cache has.
    if (stat(model, &st) == 0) {
        if (len > 5 && S_ISREG(st.st_mode) && strcmp(model + len - 5, ".gguf") == 0)
            return lf_fail(err, LF_E_UNSUPPORTED,
                           "%s is a GGUF file, which is not supported; use the release, "
                           "deepseek-ai/DeepSeek-V4.1-Flash",
                           model);
        if (!S_ISDIR(st.st_mode))
            return lf_fail(err, LF_E_FORMAT, "%s is not a folder", model);
    } else if (!parse_name(&hub, model)) {
        return lf_fail(err, LF_E_NOT_FOUND,
                       "%s is neither a folder nor a hub name (ORG/NAME or ORG/NAME@COMMIT)",
                       model);
    } else {
        LF_TRY(find_snapshot(path, &hub, err));
        result = path;
    }
    len = strlen(result);
    if (len >= folder_bytes)
        return lf_fail(err, LF_E_TOO_LARGE, "the path of %s is too long", model);
    memcpy(folder, result, len + 1);
    return LF_OK;
}

// models--ORG--NAME/snapshots/COMMIT at the end of a path.
static bool name_of_folder(struct hub_name *out, const char *folder) {
    static const char mark[] = "/models--", below[] = "/snapshots/";
    const char *repository = NULL;
    for (const char *at = strstr(folder, mark); at; at = strstr(at + 1, mark))
        repository = at + sizeof mark - 1;
    const char *middle = repository ? strstr(repository, "--") : NULL;
    const char *end = repository ? strstr(repository, below) : NULL;
    if (!middle || !end || middle > end)
        return false;
    const char *commit = end + sizeof below - 1;
    if (!is_commit(commit, strlen(commit)))
        return false;
    memcpy(out->commit, commit, COMMIT_LEN + 1);
    return take_part(out->org, repository, (size_t)(middle - repository)) &&
           take_part(out->name, middle + 2, (size_t)(end - middle - 2));
}

void lf_hub_command(char command[LF_HUB_COMMAND_BYTES], const char *folder, const char *file) {
    static const char plain[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._-";
    struct hub_name hub;
    // People paste this line into a shell: only a plain name goes in.
    bool named = file && file[0] != '-' && strlen(file) <= 80 && !file[strspn(file, plain)];
    const char *space = named ? " " : "", *name = named ? file : "";
    int len = name_of_folder(&hub, folder)
                  ? snprintf(command, LF_HUB_COMMAND_BYTES, "hf download %s/%s%s%s --revision %s",
                             hub.org, hub.name, space, name, hub.commit)
                  : snprintf(command, LF_HUB_COMMAND_BYTES,
                             "hf download REPOSITORY%s%s --local-dir %s", space, name, folder);
    if (len < 0 || len >= LF_HUB_COMMAND_BYTES)
        snprintf(command, LF_HUB_COMMAND_BYTES, "hf download REPOSITORY%s%s --local-dir FOLDER",
                 space, name);
}
