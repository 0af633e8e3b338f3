#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "format/inventory.h"
#include "vectors.h"

// The list of tensors.json, expanded for one configuration and held against the inventory.
struct expansion {
    const json_t *list, *text, *vision;
    struct lf_topology t;
    struct lf_arena arena;
    struct lf_inventory inventory;
    uint32_t layer; // of the pattern being expanded, for the row counts
    uint64_t tensors, payload_bytes;
};

static uint64_t symbol(const struct expansion *e, const char *name, size_t len) {
    char key[16];
    snprintf(key, sizeof key, "%.*s", (int)len, name);
    if (strcmp(key, "ER") == 0) {
        for (uint32_t i = 0; i < e->t.n_engram; i++)
            if (e->t.engram_layers[i] == e->layer)
                return e->t.engram_rows[i];
        fail_msg("no rows for layer %u", e->layer);
    }
    if (strcmp(key, "taps") == 0)
        return json_array_size(json_object_get(e->text, "dspark_target_layer_ids"));
    const char *from =
        json_string_value(json_object_get(vectors_get(vectors_get(e->list, "dims"), key), "from"));
    assert_non_null(from);
    const json_t *config = strncmp(from, "text.", 5) == 0 ? e->text : e->vision;
    const json_t *value = json_object_get(config, strchr(from, '.') + 1);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

static uint64_t sum(const struct expansion *e, const char **at);

static uint64_t factor(const struct expansion *e, const char **at) {
    size_t len = strspn(*at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
    const char *name = *at;
    bool up32 = strncmp(name, "up32(", 5) == 0;
    *at += len;
    if (**at == '(') {
        ++*at;
        uint64_t value = sum(e, at);
        assert_int_equal(*(*at)++, ')');
        return up32 ? (value + 31) / 32 : value;
    }
    return name[0] >= '0' && name[0] <= '9' ? strtoull(name, NULL, 10) : symbol(e, name, len);
}

static uint64_t product(const struct expansion *e, const char **at) {
    uint64_t value = factor(e, at);
    while (**at == '*' || **at == '/') {
        bool times = *(*at)++ == '*';
        uint64_t right = factor(e, at);
        assert_true(times || value % right == 0);
        value = times ? value * right : value / right;
    }
    return value;
}

static uint64_t sum(const struct expansion *e, const char **at) {
    uint64_t value = product(e, at);
    while (**at == '+' || **at == '-') {
        bool plus = *(*at)++ == '+';
        uint64_t right = product(e, at);
        value = plus ? value + right : value - right;
    }
    return value;
}

// The members of a set of tensors.json, in the words of its "from".
static size_t members(const struct expansion *e, const char *set, uint32_t out[512]) {
    const struct lf_topology *t = &e->t;
    const struct {
        const char *set;
        uint32_t first, count;
        const uint32_t *list;
    } sets[] = {
        {"layers", 0, t->layers, NULL},
        {"kv_sources", 0, t->n_kv_sources, t->kv_sources},
        {"pooled_kv_sources", 0, t->n_kv_sources, t->kv_sources},
        {"index_sources", 0, t->n_index_sources, t->index_sources},
        {"engram_layers", 0, t->n_engram, t->engram_layers},
        {"drafts", 0, t->draft_layers, NULL},
        {"first_draft", 0, t->draft_layers > 0, NULL},
        {"last_draft", t->draft_layers - 1, t->draft_layers > 0, NULL},
        {"experts", 0, t->experts, NULL},
        {"draft_experts", 0, t->draft_experts, NULL},
        {"vision_blocks", 0, t->vision_layers, NULL},
    };
    size_t n = 0;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (uint32_t k = 0; strcmp(sets[i].set, set) == 0 && k < sets[i].count; k++) {
            uint32_t id = sets[i].list ? sets[i].list[k] : sets[i].first + k;
            if (strcmp(set, "pooled_kv_sources") != 0 || t->ratio[id] > 1)
                out[n++] = id;
        }
    return n;
}

static uint64_t dtype_bytes(const char *dtype) {
    return strcmp(dtype, "F32") == 0 ? 4 : strcmp(dtype, "BF16") == 0 ? 2 : 1;
}

// One tensor of the list: the inventory must want it, with this shape.
static void check_tensor(struct expansion *e, const char *name, const json_t *pattern) {
    const struct lf_wanted *w = lf_inventory_find(&e->inventory, name);
    const char *dtype = json_string_value(vectors_get(pattern, "dtype"));
    const json_t *shape = vectors_get(pattern, "shape");
    uint64_t size = dtype_bytes(dtype), dim[2] = {0};
    if (!w)
        fail_msg("%s is not in the inventory", name);
    for (size_t i = 0; i < json_array_size(shape); i++) {
        const char *at = json_string_value(json_array_get(shape, i));
        dim[i] = sum(e, &at);
        assert_int_equal(*at, 0);
        size *= dim[i];
    }
    e->tensors++;
    e->payload_bytes += size;
    if (w->kind == LF_WANT_PRESENT)
        return;
    assert_int_equal(w->rank, json_array_size(shape));
    bool scale = strcmp(name + strlen(name) - 6, ".scale") == 0;
    bool rows_tiled = scale && w->kind == LF_WANT_LINEAR && !strstr(name, ".ffn.experts.");
    assert_int_equal(dim[0], rows_tiled ? (w->shape[0] + 31) / 32 : w->shape[0]);
    uint64_t packed = scale ? 32 : strcmp(dtype, "I8") == 0 ? 2 : 1;
    assert_int_equal(dim[1], w->shape[1] / packed);
}

// Replaces the first {index} of the name by each member of its set, until none is left.
static void expand(struct expansion *e, const char *name, const json_t *pattern) {
    const char *open = strchr(name, '{');
    char index[2] = {open ? open[1] : 0}, next[256];
    uint32_t member[512];
    if (!open) {
        check_tensor(e, name, pattern);
        return;
    }
    const char *set = json_string_value(vectors_get(vectors_get(pattern, "over"), index));
    size_t n = members(e, set, member);
    for (size_t i = 0; i < n; i++) {
        e->layer = index[0] == 'L' ? member[i] : e->layer;
        snprintf(next, sizeof next, "%.*s%u%s", (int)(open - name), name, member[i], open + 3);
        expand(e, next, pattern);
    }
}

static void expand_all(struct expansion *e, json_t *config) {
    struct lf_error err = LF_ERROR_INIT;
    char *text = json_dumps(config, 0);
    if (lf_topology_parse(&e->t, text, strlen(text), "config.json", &err) != LF_OK ||
        lf_inventory_build(&e->inventory, &e->arena, &e->t, &err) != LF_OK)
        fail_msg("%s", err.text);
    free(text);
    e->text = vectors_get(config, "text_config");
    e->vision = vectors_get(config, "vision_config");
    const json_t *patterns = vectors_get(e->list, "patterns");
    for (size_t i = 0; i < json_array_size(patterns); i++) {
        const json_t *pattern = json_array_get(patterns, i);
        expand(e, json_string_value(vectors_get(pattern, "name")), pattern);
    }
    // As many tensors as the inventory wants: it asks for none that the list lacks.
    uint64_t wanted = 0;
    for (size_t i = 0; i < e->inventory.n; i++) {
        enum lf_want_kind kind = e->inventory.wanted[i].kind;
        wanted += 1 + (kind == LF_WANT_LINEAR || kind == LF_WANT_TABLE);
    }
    assert_int_equal(wanted, e->tensors);
}

static void check_config(const char *config_name, const char *overrides, uint64_t tensors,
                         uint64_t payload_bytes) {
    json_t *list = vectors_load("../tensors"), *config = vectors_load(config_name);
    if (overrides) {
        const json_t *over = vectors_get(vectors_get(list, overrides), "config");
        const char *key;
        json_t *object;
        json_object_foreach((json_t *)(uintptr_t)over, key, object)
            json_object_update(json_object_get(config, key), object);
        // The example leaves the image id out, which its small vocabulary does not hold.
        json_object_set_new(config, "image_token_id", json_integer(5));
    }
    struct expansion e = {.list = list};
    expand_all(&e, config);
    assert_int_equal(e.tensors, tensors);
    assert_int_equal(e.payload_bytes, payload_bytes);
    lf_arena_free(&e.arena);
    json_decref(list);
    json_decref(config);
}

// checkpoint.md 4.1.
static void does_the_release_have_96085_tensors(void **state) {
    (void)state;
    check_config("../config", NULL, 96085, 510286023000);
}

static void does_the_small_example_have_744_tensors(void **state) {
    (void)state;
    check_config("../config", "mini_example", 744, 3508452);
}

static void does_the_demo_have_1308_tensors(void **state) {
    (void)state;
    json_t *index = vectors_load("../../../models/demo/model.safetensors.index");
    const json_t *total = vectors_get(vectors_get(index, "metadata"), "total_size");
    check_config("../../../models/demo/config", NULL, 1308, (uint64_t)json_integer_value(total));
    json_decref(index);
}

static void is_a_stray_tensor_told_from_an_unknown_one(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum lf_tensor_role role;
    } names[] = {
        {"layers.3.attn.wq_a.weight", LF_ROLE_WANTED},
        {"layers.3.attn.wq_a.scale", LF_ROLE_WANTED},
        {"layers.3.ffn.gate.bias", LF_ROLE_WANTED},
        {"layers.1.engram.embed.scale", LF_ROLE_WANTED},
        {"image_start", LF_ROLE_WANTED},
        {"layers.3.attn.wq_a.bias", LF_ROLE_STRAY},
        {"layers.3.attn.wq_a", LF_ROLE_STRAY},
        {"layers.3.attn.ape", LF_ROLE_STRAY},
        {"layers.3.hc_head_fn", LF_ROLE_STRAY},
        {"layers.3.attn_norm.bias", LF_ROLE_STRAY},
        {"layers.3.ffn.gate.scale", LF_ROLE_STRAY},
        {"norm.bias", LF_ROLE_STRAY},
        {"embed.scale", LF_ROLE_STRAY},
        {"mtp.0.embed.weight", LF_ROLE_UNKNOWN},
        {"mtp.2.head.weight", LF_ROLE_UNKNOWN},
        {"layers.8.attn.wq_a.weight", LF_ROLE_UNKNOWN},
        {"layers.5.attn.compressor.wgate.weight", LF_ROLE_UNKNOWN},
        {"something", LF_ROLE_UNKNOWN},
        {".", LF_ROLE_UNKNOWN},
    };
    json_t *config = vectors_load("../../../models/demo/config");
    json_t *list = vectors_load("../tensors");
    struct expansion e = {.list = list};
    expand_all(&e, config);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (lf_inventory_role(&e.inventory, names[i].name) != names[i].role)
            fail_msg("%s has another role than %d", names[i].name, names[i].role);
    lf_arena_free(&e.arena);
    json_decref(list);
    json_decref(config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_the_release_have_96085_tensors),
        cmocka_unit_test(does_the_small_example_have_744_tensors),
        cmocka_unit_test(does_the_demo_have_1308_tensors),
        cmocka_unit_test(is_a_stray_tensor_told_from_an_unknown_one),
    };
    return cmocka_run_group_tests_name("inventory", tests, NULL, NULL);
}
