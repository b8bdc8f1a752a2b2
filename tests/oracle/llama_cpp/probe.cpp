// Creates contexts of a GGUF file with llama.cpp's own library and prints what the library logs of them.
//
// usage: probe MODEL.gguf < contexts      one context per line: "ctx=0 np=4 ub=512 b=2048 ctk=f16 ctv=f16 fa=auto full=0 unified=1 rs=0"
// Nothing is allocated: the model is loaded with no_alloc, so its weights need not exist.
// Every context ends with a line "== ok" or "== refused".
#include "llama.h"

#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

static ggml_type type_named(const std::string & name) {
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const char * known = ggml_type_name((ggml_type) i);
        if (known && name == known) { return (ggml_type) i; }
    }
    std::fprintf(stderr, "unknown type %s\n", name.c_str());
    std::exit(2);
}

static llama_flash_attn_type flash_named(const std::string & name) {
    if (name == "on")  { return LLAMA_FLASH_ATTN_TYPE_ENABLED; }
    if (name == "off") { return LLAMA_FLASH_ATTN_TYPE_DISABLED; }
    return LLAMA_FLASH_ATTN_TYPE_AUTO;
}

static void print_log(ggml_log_level level, const char * text, void *) {
    if (level != GGML_LOG_LEVEL_DEBUG) { std::fputs(text, stdout); }
}

int main(int argc, char ** argv) {
    if (argc != 2) { return 2; }
    llama_log_set(print_log, nullptr);
    llama_backend_init();
    llama_model_params model_params = llama_model_default_params();
    model_params.no_alloc       = true;
    model_params.load_mode      = LLAMA_LOAD_MODE_NONE;
    model_params.use_extra_bufts = false;
    llama_model * model = llama_model_load_from_file(argv[1], model_params);
    if (!model) { return 1; }
    std::puts("== loaded");
    for (std::string line; std::getline(std::cin, line);) {
        std::map<std::string, std::string> given;
        std::istringstream words(line);
        for (std::string word; words >> word;) {
            const size_t at = word.find('=');
            given[word.substr(0, at)] = word.substr(at + 1);
        }
        llama_context_params params = llama_context_default_params();
        params.n_ctx           = std::stoul(given["ctx"]);
        params.n_seq_max       = std::stoul(given["np"]);
        params.n_batch         = std::stoul(given["b"]);
        params.n_ubatch        = std::stoul(given["ub"]);
        params.type_k          = type_named(given["ctk"]);
        params.type_v          = type_named(given["ctv"]);
        params.flash_attn_type = flash_named(given["fa"]);
        params.swa_full        = given["full"] == "1";
        params.kv_unified      = given["unified"] == "1";
        params.n_rs_seq        = std::stoul(given["rs"]);
        llama_context * context = llama_init_from_model(model, params);
        std::puts(context ? "== ok" : "== refused");
        std::fflush(stdout);
        if (context) { llama_free(context); }
    }
    llama_model_free(model);
    return 0;
}
