// lanefold: exact inference for DeepSeek-V4.1-Flash; the one public header of liblanefold.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// What the shared library exports, and all of it.
#define LF_API __attribute__((visibility("default")))
#define LF_CHECKED __attribute__((warn_unused_result))

LF_API const char *lf_version(void); // "0.1.0"

enum lf_status {
    LF_OK = 0,
    LF_E_USAGE,       // wrong command line
    LF_E_IO,          // the operating system said no; cause holds errno
    LF_E_FORMAT,      // a file's content is wrong
    LF_E_JSON,        // not JSON; byte says where
    LF_E_MISSING,     // a required field, file or tensor is absent
    LF_E_TYPE,        // a field has the wrong type
    LF_E_VALUE,       // a field's value is out of range
    LF_E_UNSUPPORTED, // a legal thing this program does not do
    LF_E_CONTEXT,     // prompt and reply do not fit the context
    LF_E_NOT_FOUND,   // an unknown name
    LF_E_TOO_LARGE,   // over a stated limit
    LF_E_MEM,         // allocation failed
    LF_E_QUEUE_FULL,  // the waiting line is at its bound
    LF_E_CLOSED,      // shutting down
    LF_E_CANCELLED,   // the client went away or asked to stop
    LF_E_SLOT,        // target: slot out of range or named twice
    LF_E_TOKEN,       // target: id not below the vocabulary
    LF_E_POS,         // target: position is not the slot's length
    LF_E_ROWS,        // target: row count out of range
    LF_E_KEEP,        // target: keep does not fit the last verify
    LF_E_PLAN,        // target: a boundary that was not in the pass's plan
    LF_E_NONFINITE,   // logits hold NaN or infinity
    LF_E_DEVICE,      // the device failed
    LF_E_ABSENT,      // the device asked for is not there
    LF_E_FIELD,       // a known request field that this program does not do
};

// The caller's, LF_ERROR_INIT before a call; a call that fails fills it and returns its status.
struct lf_error {
    enum lf_status status; // LF_OK until something failed
    int cause;             // errno or 0
    int64_t byte;          // offset in the input, -1 when there is none
    char param[96];        // request field, "" when there is none
    char text[512];        // one sentence, no newline
};

#define LF_ERROR_INIT {LF_OK, 0, -1, "", ""}

LF_API const char *lf_status_name(enum lf_status status);

// Bytes that grow; zero is empty. A failed allocation is remembered in failed and checked once.
struct lf_buffer {
    char *data; // NUL-terminated once anything was added
    size_t len, cap;
    bool failed;
};
LF_API void lf_buffer_clear(struct lf_buffer *buffer); // keeps the memory
LF_API void lf_buffer_free(struct lf_buffer *buffer);

// Token ids, the same way.
struct lf_ids {
    uint32_t *id;
    size_t len, cap;
    bool failed;
};
LF_API void lf_ids_clear(struct lf_ids *ids); // keeps the memory
LF_API void lf_ids_free(struct lf_ids *ids);

enum lf_log_level { LF_LOG_DEBUG, LF_LOG_INFO, LF_LOG_WARN, LF_LOG_ERROR };
// One line without its end; never prompt or reply text. Any thread, one at a time.
typedef void lf_log_fn(void *ctx, enum lf_log_level level, const char *text);
// The process's log, from lowest on; write NULL: standard error. Before: warnings and errors there.
LF_API void lf_log_to(enum lf_log_level lowest, lf_log_fn *write, void *ctx);

// How a token is drawn from its row of logits (engine.md 10).
struct lf_sampling {
    double temperature; // <= 0: greedy
    double top_p;       // >= 1: off
    double min_p;       // 0: off
    int64_t top_k;      // <= 0: off
    uint64_t seed;
};

enum { LF_LOGPROBS_MAX = 20 };

// Log-probabilities of one drawn row at temperature 1, before any filter (engine.md S-20).
struct lf_logprob_row {
    float drawn; // of the token; NaN: a forced one that is no alternative (S-21)
    uint32_t n;  // alternatives, best first in the order of S-4
    uint32_t id[LF_LOGPROBS_MAX];
    float value[LF_LOGPROBS_MAX];
};

enum lf_done {
    LF_DONE_EOS,         // an end token, delivered
    LF_DONE_STOP_STRING, // the stop callback fired
    LF_DONE_LENGTH,      // max_tokens
    LF_DONE_WINDOW,      // the context
    LF_DONE_CANCELLED,
    LF_DONE_TIMEOUT, // waited in the queue past queue_timeout_s
    LF_DONE_CLOSED,  // the engine shut down first
    LF_DONE_FAILED,
    LF_DONE_MEMORY, // it never started: no memory for its prompt even alone
};

// Asked after each committed token, on the engine thread: nonzero ends the reply after this token.
typedef int lf_stop_fn(void *ctx, uint32_t id);

#define LF_PATH_FREE UINT32_MAX // the draw decides

// The id that must follow n ids of the reply, by these alone, or LF_PATH_FREE (L-6, S-19).
typedef uint32_t lf_path_fn(void *ctx, const uint32_t *reply, uint32_t n, const uint32_t *draft,
                            uint32_t n_drafts); // n_drafts above 0: a guess that fills a window

// Of one request, at its end; queue and first token count from submit.
struct lf_stats {
    uint32_t prompt_tokens, completion_tokens, cached_tokens; // cached: of the prompt
    uint32_t rounds, drafted, accepted, plain_rounds, min_rows; // engine.md 14
    double queue_seconds, prefill_seconds, time_to_first_token, decode_seconds, tokens_per_second;
    uint64_t seed;
    char token_sha256[65]; // of the reply's ids as little-endian 32-bit words, in hex
};

// Events on the engine thread; all but finished may be NULL; none may wait or call the engine.
struct lf_sink {
    void (*admitted)(void *ctx, uint64_t id); // the request left the line for a slot
    void (*prefilled)(void *ctx, uint64_t id, uint32_t cached_tokens);
    // rows: their log-probabilities, or NULL where the request did not ask.
    void (*tokens)(void *ctx, uint64_t id, const uint32_t *token, uint32_t n,
                   const struct lf_logprob_row *rows);
    // Exactly once for every accepted submit. message: for LF_DONE_FAILED and _MEMORY, else "".
    void (*finished)(void *ctx, uint64_t id, enum lf_done why, const struct lf_stats *stats,
                     const char *message);
};

enum { LF_SHARED_MAX = 4 };

// Copied at submit; what it points to stays valid and unchanged until finished.
struct lf_request {
    const uint32_t *prompt; // [prompt_len] ids below the vocabulary
    uint32_t prompt_len;
    uint32_t max_tokens; // reply limit, 1 or more
    bool max_explicit;   // the client named it: prompt + max_tokens past the context is refused
    struct lf_sampling sampling;
    const uint32_t *eos; // [n_eos] end ids; empty when the client ignores them
    uint32_t n_eos;
    lf_stop_fn *stop; // or NULL
    void *stop_ctx;
    lf_path_fn *path; // asked for each token after stop was told those before it, or NULL
    void *path_ctx;
    bool background;       // gives way to every other request
    bool no_drafts;        // windows of one row; the tokens are the same
    bool no_cache;         // neither read nor write the prompt cache
    bool want_logprobs;
    uint32_t top_logprobs; // alternatives a token, at most LF_LOGPROBS_MAX
    // Where the prompt cache saves: rows from the start of the prompt.
    uint32_t history_len; // before the generation prompt, 0: unknown
    uint32_t rewind_len;  // before the latest user message, 0: none
    uint32_t shared[LF_SHARED_MAX], n_shared; // ends of shared blocks (system text, tools)
};

struct lf_cache_stats { // engine.md C-17
    uint64_t hits, misses, kept, evicted, refused, failed, restored_tokens;
    uint64_t entries, held_bytes, cap_bytes;
    // The cache on disk: files now; states written, read back, found damaged, removed for room.
    uint64_t disk_files, disk_held_bytes, disk_cap_bytes;
    uint64_t spilled, returned, damaged, disk_removed;
    uint64_t unspilled; // evicted before they were written
    bool disk_paused;   // for want of disk
};

// What changes while the engine lives.
struct lf_engine_status {
    uint32_t running, waiting, queue_max;
    uint64_t prompt_tokens, completion_tokens, finished, cancelled, failed; // totals
    uint64_t rounds, plain_rounds, drafted, accepted; // totals over finished streams (D-15)
    uint64_t nonfinite; // of the failed: logits with NaN or infinity (F-5)
    uint64_t yielded, paused;                         // L-40, L-43
    struct lf_cache_stats cache;
    bool draining, dead;
    char message[256]; // why it is dead
};

enum lf_drafts {
    LF_DRAFTS_OFF,  // windows of one row
    LF_DRAFTS_AUTO, // the target's drafter where it has one, and copies of the history
    LF_DRAFTS_ON,   // the same; a target without a drafter is refused (F-6)
};

// Whether each worker thread keeps a physical core of its own; the calling threads never do.
enum lf_pin {
    LF_PIN_AUTO, // where the machine has several memory nodes, all for this process, and the cores
    LF_PIN_ON,   // refused where there are more threads than processors
    LF_PIN_OFF,
};

// An eighth of the memory budget, at most 16 GiB, less where the model leaves less.
#define LF_PROMPT_CACHE_AUTO UINT64_MAX
// As many as fit with the context, or with the model's where none is named (L-33).
#define LF_PARALLEL_AUTO UINT32_MAX

// Start from LF_ENGINE_OPTIONS_INIT.
struct lf_engine_options {
    const char *device;  // auto, cpu, cuda or cuda:N; NULL: auto, CUDA where the model fits there
    const char *isa;     // auto, portable, avx2, avx512 or neon; NULL: auto. Never changes bits
    uint32_t threads;    // 0: one a physical core that may be used. Never changes bits
    enum lf_pin pin;     // never changes bits
    uint32_t parallel;   // requests that run at once, at most 64; 0: 4; or LF_PARALLEL_AUTO
    uint64_t context;    // positions a request, prompt and reply; 0: the most that fits
    uint32_t chunk_rows; // prompt rows of one call at most, 256 to 4096; 0: by the model
    // Memory; of the first two only one may be given.
    uint64_t memory_limit_bytes; // the budget; 0: what is available less the reserve
    uint64_t reserve_bytes;      // to leave free; 0: the greater of 1 GiB and 3 percent
    uint64_t prompt_cache_bytes; // cap of the prompt cache; 0: none (C-5)
    // What leaves the prompt cache is written to this folder and comes back (C-18); NULL: it goes.
    const char *spill_dir;
    uint64_t spill_bytes;       // cap of its files, above 0 with a folder
    uint64_t spill_floor_bytes; // free disk that stays; 0: 4 GiB
    uint64_t spill_rows;        // shorter states are not written; 0: 1,024
    bool keep_shared;           // shared prefixes are written at once
    enum lf_drafts drafts;
    uint32_t draft_depth;   // 0: chosen by cost (D-5); else drafts a window, no loss budget (D-9)
    uint32_t queue_max;     // waiting requests; 0: 128
    double queue_timeout_s; // 0: none
    double decode_share;   // of the time, for running replies while prompts fill, below 1 (L-27)
    uint32_t long_prompts; // prompts of over 32,768 rows that fill at once; 0: 1 (L-29)
    uint32_t max_gap_ms;   // a chunk beside running replies takes at most this; 0: no limit (L-32)
    // Made-up weights in the release's formats, in memory: of the folder's files only config.json,
    bool dummy_weights; // tokenizer.json and generation_config.json are read
    uint64_t dummy_seed;
    uint64_t dummy_table_rows;   // larger Engram tables are cut to about so many rows; 0: 2^20
    const uint32_t *dummy_layer; // [n_dummy_layers] of config.json that remain, ascending
    uint32_t n_dummy_layers;     // 0: all
    bool dummy_shared; // layers of a kind have the weights of the first of them, held once
    const char *cost_folder; // keeps launch times from start to start (D-8); NULL: timed each time
    // Close gives up on a device or disk that takes longer; the process must then end (F-4).
    double device_wait_s; // 0: 300
};

#define LF_ENGINE_OPTIONS_INIT                                                                     \
    {.prompt_cache_bytes = LF_PROMPT_CACHE_AUTO, .drafts = LF_DRAFTS_AUTO, .decode_share = 0.25,   \
     .long_prompts = 1, .max_gap_ms = 1000}

// One model, loaded and served by a thread of its own; several may live in one process.
struct lf_engine;

// model: a folder or ORG/NAME of the hub cache, NULL: the demo; options NULL: those of the macro.
LF_API LF_CHECKED enum lf_status lf_engine_open(struct lf_engine **out, const char *model,
                                                const struct lf_engine_options *options,
                                                struct lf_error *err);
// Gives running requests seconds to end, then cancels them; frees all, or false (device_wait_s).
LF_API bool lf_engine_close(struct lf_engine *engine, double drain_seconds);
// Any thread; id unique among live requests. LF_E_QUEUE_FULL, _CLOSED, _VALUE, _TOKEN, _CONTEXT.
LF_API LF_CHECKED enum lf_status lf_engine_submit(struct lf_engine *engine, uint64_t id,
                                                  const struct lf_request *request,
                                                  const struct lf_sink *sink, void *ctx,
                                                  struct lf_error *err);
// Any thread: the request ends within one launch; an unknown id is ignored.
LF_API void lf_engine_cancel(struct lf_engine *engine, uint64_t id);
// Any thread; never waits on a launch.
LF_API void lf_engine_status_read(struct lf_engine *engine, struct lf_engine_status *out);

// What does not change while the engine lives; it goes with the engine.
struct lf_engine_info {
    const char *name, *folder; // the folder's last part; "" each without a folder
    const char *device;        // cpu, cuda:0
    const char *fingerprint;   // names weights, configuration and build: equal names, equal tokens
    uint64_t context;          // positions of a request, prompt and reply
    uint32_t vocab, parallel;
    bool drafts;                 // replies may be drafted
    struct lf_sampling sampling; // the checkpoint's defaults, seed 0
    const uint32_t *eos;         // [n_eos] end ids
    uint32_t n_eos;
    uint32_t bos;       // the first id of every prompt
    uint32_t think_end; // the id that ends the reasoning of a thinking reply
};
LF_API const struct lf_engine_info *lf_engine_info(const struct lf_engine *engine);

enum { LF_MEMORY_LINES_MAX = 32 };

struct lf_memory_line {
    const char *name; // a key such as weights, kv, prompt_cache
    uint64_t planned_bytes; // where kernels work: on the device, or all of it on a CPU
    uint64_t host_bytes;    // planned beside a device
    uint64_t held_bytes; // now, of planned_bytes; 0: not known of this line
    bool counted;        // part of the need: Engram tables stay on disk and are not
};

// The plan that was made before loading, and what is held now (engine.md M-1, M-11).
struct lf_memory_report {
    struct lf_memory_line line[LF_MEMORY_LINES_MAX];
    uint32_t n_lines; // 0: the engine has no plan
    uint64_t need_bytes, budget_bytes, reserve_bytes;
    uint64_t available_bytes, total_bytes; // of the device or machine before loading
    const char *device; // cpu, cuda:0
    uint64_t device_bytes, device_peak_bytes;    // taken there; 0 on a CPU
    uint64_t host_need_bytes, host_budget_bytes; // beside a device
    uint64_t kv_position_bytes;            // of one position of one request
    uint64_t launch_bytes;                 // of the workspace, what a decode launch uses
    uint64_t kv_pages_used;                // by rows of live requests
    uint64_t kv_pages_promised;            // to live requests, rows to come included
    uint64_t kv_pages_planned;             // for the whole context of every slot
    uint64_t context;
    uint32_t parallel, chunk_rows, threads;
};
// Any thread.
LF_API void lf_engine_memory_read(const struct lf_engine *engine, struct lf_memory_report *out);

// The seed of a request that brings none, from its prompt (S-13). Images: their digests in order.
LF_API uint64_t lf_seed_derive(const uint32_t *ids, size_t n, const uint8_t (*digests)[32],
                               size_t n_images, uint64_t salt);

// One turn of a chat, both texts UTF-8 ended by NUL; role: system, user or assistant.
struct lf_chat_turn {
    const char *role, *content;
};
// Appends the ids of a prompt that asks for the next reply; text never becomes control tokens.
LF_API LF_CHECKED enum lf_status lf_engine_render(const struct lf_engine *engine,
                                                  const struct lf_chat_turn *turn, size_t n,
                                                  bool thinking, struct lf_ids *out,
                                                  struct lf_error *err);
// Appends the ids of plain UTF-8; a raw prompt has info's bos in front. LF_E_FORMAT names the byte.
LF_API LF_CHECKED enum lf_status lf_engine_encode(const struct lf_engine *engine, const char *text,
                                                  size_t len, struct lf_ids *out,
                                                  struct lf_error *err);
// Bytes of a character whose end has not come; zero at a reply's start.
struct lf_utf8_stream {
    char tail[4];
    uint8_t tail_len;
};
// Appends the whole characters that the id completes; control tokens have no text.
LF_API void lf_engine_decode(const struct lf_engine *engine, uint32_t id,
                             struct lf_utf8_stream *stream, struct lf_buffer *out);
// Ends the stream: an unfinished tail becomes U+FFFD.
LF_API void lf_utf8_stream_end(struct lf_utf8_stream *stream, struct lf_buffer *out);
// The checkpoint's defaults for a prompt: seed, sampling, end ids, all the room, cache marks.
LF_API struct lf_request lf_engine_request(const struct lf_engine *engine,
                                           const struct lf_ids *prompt);

#ifdef __cplusplus
}
#endif
