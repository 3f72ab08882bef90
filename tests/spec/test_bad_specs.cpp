#include "catch.hpp"
#include "membudget/spec.hpp"

#include <string>
#include <vector>

#include "spec/shown.hpp"

using namespace membudget;

namespace {
struct Case {
    std::string document;
    std::string errors;
};
}  // namespace

TEST_CASE("every mistake of a spec is named, in the order of the document", "[spec]") {
    const std::vector<Case> cases{
        {"3",
         "error: expected an object with a key 'membudget'; got an integer (3)\n"},
        {"[]",
         "error: expected an object with a key 'membudget'; got an empty array\n"},
        {"null",
         "error: expected an object with a key 'membudget'; got null\n"},
        {"{}",
         "error: expected a key 'membudget', the version of the format; got none\n"
         "  hint: add \"membudget\": 1\n"
         "error: expected a key 'model' or a key 'terms'; got neither\n"},
        {R"J({"membudget":1})J",
         "error: expected a key 'model' or a key 'terms'; got neither\n"},
        {R"J({"membudget":2})J",
         "unsupported: /membudget: expected version 1 of the format, which this program reads; "
         "got version 2\n"},
        {R"J({"membudget":2,"future":true})J",
         "unsupported: /membudget: expected version 1 of the format, which this program reads; "
         "got version 2\n"},
        {R"J({"membudget":"1"})J",
         "error: /membudget: expected the integer 1, the version of the format; got a string "
         "('1')\n"
         "error: expected a key 'model' or a key 'terms'; got neither\n"},
        {R"J({"membudget":1.5,"model":{"name":"x"}})J",
         "error: /membudget: expected the integer 1, the version of the format; got a fraction "
         "(1.5)\n"},
        {R"J({"membuget":1,"model":{"name":"x"}})J",
         "error: /membuget: unknown key 'membuget'\n"
         "  hint: did you mean 'membudget'?\n"},
        {R"J({"model":{"name":"x"}})J",
         "error: expected a key 'membudget', the version of the format; got none\n"
         "  hint: add \"membudget\": 1\n"},
        {R"J({"membudget":1,"modle":{"name":"x"}})J",
         "error: /modle: unknown key 'modle'\n"
         "  hint: did you mean 'model'?\n"},
        {R"J({"membudget":1,"model":"llama-3.1-8b"})J",
         "error: /model: expected an object; got a string ('llama-3.1-8b')\n"
         "  hint: {\"name\": NAME} is a model of the catalogue, {\"config\": PATH} a file\n"},
        {R"J({"membudget":1,"model":{}})J",
         "error: /model: expected one of the keys 'config', 'name', 'family' and 'parameters'; "
         "got none of them\n"},
        {R"J({"membudget":1,"model":{"name":"x","config":"config.json"}})J",
         "error: /model: expected only one of the keys 'config', 'name', 'family' and "
         "'parameters'; got 'config' and 'name'\n"},
        {R"J({"membudget":1,"model":{"nam":"x"}})J",
         "error: /model/nam: unknown key 'nam'\n"
         "  hint: did you mean 'name'?\n"},
        {R"J({"membudget":1,"model":{"name":""}})J",
         "error: /model/name: expected a name; got an empty string\n"},
        {R"J({"membudget":1,"model":{"name":3}})J",
         "error: /model/name: expected a name; got an integer (3)\n"},
        {R"J({"membudget":1,"model":{"config":{"model_type":"llama"}}})J",
         "error: /model/config: expected the path of a file; got an object\n"},
        {R"J({"membudget":1,"model":{"parameters":0}})J",
         "error: /model/parameters: expected a positive integer; got zero\n"},
        {R"J({"membudget":1,"model":{"parameters":-5}})J",
         "error: /model/parameters: expected a positive integer; got a negative integer (-5)\n"},
        {R"J({"membudget":1,"model":{"parameters":1.5}})J",
         "error: /model/parameters: expected a positive integer; got a fraction (1.5)\n"},
        {R"J({"membudget":1,"model":{"parameters":1e30}})J",
         "error: /model/parameters: expected an integer of at most 1,000,000,000,000,000; got a "
         "number (1e30)\n"},
        {R"J({"membudget":1,"model":{"parameters":"7B"}})J",
         "error: /model/parameters: expected a positive integer; got a string ('7B')\n"},
        {R"J({"membudget":1,"model":{"parameters":"7000000000"}})J",
         "error: /model/parameters: expected a positive integer; got a string ('7000000000')\n"
         "  hint: write the number without quotes\n"},
        {R"J({"membudget":1,"model":{"parameters":2000000000000000}})J",
         "error: /model/parameters: expected an integer of at most 1,000,000,000,000,000; got "
         "an integer (2000000000000000)\n"},
        {R"J({"membudget":1,"model":{"parameters":1,"architecture":"X"}})J",
         "error: /model/architecture: expected no architecture beside a bare count of "
         "parameters; got a string ('X')\n"},
        {R"J({"membudget":1,"model":{"hidden_size":64,"num_hidden_layers":2}})J",
         "error: /model/hidden_size: unknown key 'hidden_size'\n"
         "  hint: keys: config, name, family, parameters, architecture, weights\n"
         "error: /model/num_hidden_layers: unknown key 'num_hidden_layers'\n"
         "  hint: keys: config, name, family, parameters, architecture, weights\n"
         "error: /model: expected one of the keys 'config', 'name', 'family' and 'parameters'; "
         "got none of them\n"},
        {R"J({"membudget":1,"model":{"famly":"llama","hidden_size":64,"num_hidden_layers":2}})J",
         "error: /model/famly: unknown key 'famly'\n"
         "  hint: did you mean 'family'?\n"},
        {"{\"membudget\":1,\"model\":{\"family\":\"llama\",\"hidden_size\":64,\"hidden_size\":65"
         ",\"rope\":{\"a\":1,\"a\":2}}}",
         "error: /model/hidden_size: expected every key once; got 'hidden_size' again\n"
         "error: /model/rope/a: expected every key once; got 'a' again\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"trainning":{}})J",
         "error: /trainning: unknown key 'trainning'\n"
         "  hint: did you mean 'training'?\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"micro_batch_size":1})J",
         "error: /micro_batch_size: unknown key 'micro_batch_size'\n"
         "  hint: 'micro_batch_size' is a key of /training or /terms/PATH/at\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"dtype":"bf16"})J",
         "error: /dtype: unknown key 'dtype'\n"
         "  hint: 'dtype' is a key of /training/optimizer/states/SLOT or /training/lora\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"wibble":1})J",
         "error: /wibble: unknown key 'wibble'\n"
         "  hint: keys: membudget, name, model, training, parallelism, terms, device, "
         "allocator, scenarios\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":[]})J",
         "error: /training: expected an object; got an empty array\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":null})J",
         "error: /training: expected an object; got null\n"
         "  hint: to state nothing, leave the key out\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"micro_batch_size":0}})J",
         "error: /training/micro_batch_size: expected a positive integer; got zero\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"micro_batch_size":"four"}})J",
         "error: /training/micro_batch_size: expected a positive integer; got a string "
         "('four')\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"micro_batch_size":true}})J",
         "error: /training/micro_batch_size: expected a positive integer; got true\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"micro_batch_size":null}})J",
         "error: /training/micro_batch_size: expected a positive integer; got null\n"
         "  hint: to state nothing, leave the key out\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"micro_batch_size":2.5}})J",
         "error: /training/micro_batch_size: expected a positive integer; got a fraction (2.5)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"micro_batch_size":-2}})J",
         "error: /training/micro_batch_size: expected a positive integer; got a negative "
         "integer (-2)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"micro_batch_size":-1e30}})J",
         "error: /training/micro_batch_size: expected a positive integer; got a negative number "
         "(-1e30)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"micro_batch_size":1e-400}})J",
         "error: /training/micro_batch_size: expected a positive integer; got a number "
         "(1e-400)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"micro_batch_size":[1]}})J",
         "error: /training/micro_batch_size: expected a positive integer; got an array\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"sequence_length":1000000001}})J",
         "error: /training/sequence_length: expected an integer of at most 1,000,000,000; got "
         "an integer (1000000001)\n"},
        {"{\"membudget\":1,\"model\":{\"name\":\"x\"},\"training\":{\"sequence_length\":18446744"
         "073709551616}}",
         "error: /training/sequence_length: expected an integer of at most 1,000,000,000; got a "
         "number (18446744073709551616)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"images":-1}})J",
         "error: /training/images: expected a non-negative integer; got a negative integer "
         "(-1)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"image_size":[448]}})J",
         "error: /training/image_size: expected a positive integer, or a list of height and width; got an array\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"image_size":[448,0]}})J",
         "error: /training/image_size/1: expected a positive integer; got zero\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"optimzer":"adamw"}})J",
         "error: /training/optimzer: unknown key 'optimzer'\n"
         "  hint: did you mean 'optimizer'?\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"optimizer":["adamw"]}})J",
         "error: /training/optimizer: expected a name or an object; got an array\n"},
        {"{\"membudget\":1,\"model\":{\"name\":\"x\"},\"training\":{\"optimizer\":{\"name\":\"ad"
         "amw\",\"state\":{}}}}",
         "error: /training/optimizer/state: unknown key 'state'\n"
         "  hint: did you mean 'states'?\n"},
        {"{\"membudget\":1,\"model\":{\"name\":\"x\"},\"training\":{\"optimizer\":{\"states\":{"
         "\"exp_avg\":8}}}}",
         "error: /training/optimizer/states/exp_avg: expected a dtype or an object with one; "
         "got an integer (8)\n"},
        {"{\"membudget\":1,\"model\":{\"name\":\"x\"},\"training\":{\"optimizer\":{\"states\":{"
         "\"exp_avg\":{\"dtyp\":\"int8\"}}}}}",
         "error: /training/optimizer/states/exp_avg/dtyp: unknown key 'dtyp'\n"
         "  hint: did you mean 'dtype'?\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"optimizer":{"states":[]}}})J",
         "error: /training/optimizer/states: expected an object of state slots; got an empty "
         "array\n"},
        {"{\"membudget\":1,\"model\":{\"name\":\"x\"},\"training\":{\"optimizer\":{\"options\":{"
         "\"rank\":1.5}}}}",
         "error: /training/optimizer/options/rank: expected an integer; got a fraction (1.5)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"optimizer":{"options":7}}})J",
         "error: /training/optimizer/options: expected an object of integers; got an integer "
         "(7)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"optimizer":{"clip":"yes"}}})J",
         "error: /training/optimizer/clip: expected true, false or a positive norm; got a string ('yes')\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"optimizer":{"clip":-1.5}}})J",
         "error: /training/optimizer/clip: expected true, false or a positive norm; got a negative fraction (-1.5)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"precision":16}})J",
         "error: /training/precision: expected a name or an object; got an integer (16)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"precision":{"grads":"fp32"}}})J",
         "error: /training/precision/grads: unknown key 'grads'\n"
         "  hint: keys: name, parameters, gradients, master_weights, compute\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"activation_checkpointing":true}})J",
         "error: /training/activation_checkpointing: expected a name or an object; got true\n"},
        {"{\"membudget\":1,\"model\":{\"name\":\"x\"},\"training\":{\"activation_checkpointing\""
         ":{\"every\":0}}}",
         "error: /training/activation_checkpointing/every: expected a positive integer; got "
         "zero\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"padding_mask":1}})J",
         "error: /training/padding_mask: expected true or false; got an integer (1)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"kernels":"flash"}})J",
         "error: /training/kernels: expected an object of names; got a string ('flash')\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"kernels":{"attention":true}}})J",
         "error: /training/kernels/attention: expected a name; got true\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"lora":{"dropout":2}}})J",
         "error: /training/lora/dropout: expected a number from 0 to 1; got an integer (2)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"lora":{"target_modules":[]}}})J",
         "error: /training/lora/target_modules: expected a list of at least one name; got an "
         "empty array\n"},
        {"{\"membudget\":1,\"model\":{\"name\":\"x\"},\"training\":{\"lora\":{\"target_modules\""
         ":[\"q_proj\",3]}}}",
         "error: /training/lora/target_modules/1: expected a name; got an integer (3)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"lora":16}})J",
         "error: /training/lora: expected an object or the path of an adapter_config.json; got an integer (16)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"freeze":"embed"}})J",
         "error: /training/freeze: expected a list of at least one name; got a string "
         "('embed')\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"moe_imbalance":0.5}})J",
         "error: /training/moe_imbalance: expected a number from 1 to 1,000,000; got a fraction "
         "(0.5)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"training":{"offload":["optimizer_states"]}})J",
         "error: /training/offload: expected an object of names; got an array\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"parallelism":{"data":0}})J",
         "error: /parallelism/data: expected a positive integer; got zero\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"parallelism":{"data":{"shards":8}}})J",
         "error: /parallelism/data/shards: unknown key 'shards'\n"
         "  hint: did you mean 'shard'?\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"parallelism":{"data":"8"}})J",
         "error: /parallelism/data: expected a positive integer; got a string ('8')\n"
         "  hint: write the number without quotes\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"parallelism":{"tensor":-4}})J",
         "error: /parallelism/tensor: expected a positive integer; got a negative integer (-4)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"parallelism":{"tp":4}})J",
         "error: /parallelism/tp: unknown key 'tp'\n"
         "  hint: keys: data, sharding, tensor, sequence_parallel, pipeline, schedule, context, "
         "expert\n"},
        {R"J({"membudget":1,"terms":{}})J",
         "error: /terms: expected a term where there is no 'model'; got none\n"},
        {R"J({"membudget":1,"terms":[]})J",
         "error: /terms: expected an object of terms; got an empty array\n"},
        {R"J({"membudget":1,"terms":{"activations":"80G"}})J",
         "error: /terms/activations: expected a size with its whole unit; got '80G', which "
         "could mean 80,000,000,000 or 85,899,345,920 bytes\n"
         "  hint: write '80GB' or '80GiB'\n"},
        {R"J({"membudget":1,"terms":{"activations":"80"}})J",
         "error: /terms/activations: expected a size such as '80GB', '1.5 GiB' or '4096B'; got "
         "'80' without a unit\n"
         "  hint: a number of bytes is written '80B'\n"},
        {R"J({"membudget":1,"terms":{"activations":-1}})J",
         "error: /terms/activations: expected a size: a string such as '80GB', or an integer of "
         "bytes; got a negative integer (-1)\n"},
        {R"J({"membudget":1,"terms":{"activations":1.5}})J",
         "error: /terms/activations: expected a size: a string such as '80GB', or an integer of "
         "bytes; got a fraction (1.5)\n"},
        {R"J({"membudget":1,"terms":{"activations":1e30}})J",
         "error: /terms/activations: expected a size of at most 9,007,199,254,740,991 bytes; "
         "got a number (1e30)\n"},
        {R"J({"membudget":1,"terms":{"activations":true}})J",
         "error: /terms/activations: expected a size: a string such as '80GB', or an integer of "
         "bytes; got true\n"},
        {R"J({"membudget":1,"terms":{"activation":"6GB"}})J",
         "error: /terms/activation: expected a path that begins with a group of terms; got "
         "'activation'\n"
         "  hint: did you mean 'activations'?\n"},
        {R"J({"membudget":1,"terms":{"kvcache":"6GB"}})J",
         "error: /terms/kvcache: expected a path that begins with a group of terms; got "
         "'kvcache'\n"
         "  hint: groups: parameters, gradients, optimizer_states, activations, temporaries, "
         "communication, workspace, allocator, outside, padding\n"},
        {R"J({"membudget":1,"terms":{"Activations":"6GB"}})J",
         "error: /terms/Activations: expected a path of lower-case words such as "
         "'activations/attention', of at most 200 characters; got 'Activations'\n"
         "  hint: did you mean 'activations'?\n"},
        {R"J({"membudget":1,"terms":{"":"6GB"}})J",
         "error: /terms/: expected a path of lower-case words such as 'activations/attention', "
         "of at most 200 characters; got ''\n"},
        {R"J({"membudget":1,"terms":{"activations/":"6GB"}})J",
         "error: /terms/activations~1: expected a path of lower-case words such as "
         "'activations/attention', of at most 200 characters; got 'activations/'\n"
         "  hint: did you mean 'activations'?\n"},
        {R"J({"membudget":1,"terms":{"activations//mlp":"6GB"}})J",
         "error: /terms/activations~1~1mlp: expected a path of lower-case words such as "
         "'activations/attention', of at most 200 characters; got 'activations//mlp'\n"
         "  hint: did you mean 'activations'?\n"},
        {R"J({"membudget":1,"terms":{"activations/mlp":"6GB","activations":"1GB"}})J",
         "error: /terms/activations: expected paths that do not contain each other; got "
         "'activations' beside 'activations/mlp'\n"
         "  hint: a stated path replaces everything below it\n"},
        {"{\"membudget\":1,\"terms\":{\"activations\":\"6GB\",\"activations-x\":\"1GB\",\"activa"
         "tions/mlp/up\":\"1GB\"}}",
         "error: /terms/activations-x: expected a path that begins with a group of terms; got "
         "'activations-x'\n"
         "  hint: did you mean 'activations'?\n"
         "error: /terms/activations~1mlp~1up: expected paths that do not contain each other; "
         "got 'activations/mlp/up' beside 'activations'\n"
         "  hint: a stated path replaces everything below it\n"},
        {R"J({"membudget":1,"terms":{"activations":"6GB","activations":"1GB"}})J",
         "error: /terms/activations: expected every key once; got 'activations' again\n"},
        {R"J({"membudget":1,"terms":{"activations":{"lower":"1GB"}}})J",
         "error: /terms/activations: expected a key 'bytes'; got none\n"},
        {R"J({"membudget":1,"terms":{"activations":{"byte":"1GB"}}})J",
         "error: /terms/activations/byte: unknown key 'byte'\n"
         "  hint: did you mean 'bytes'?\n"},
        {R"J({"membudget":1,"terms":{"activations":{"bytes":"2GB","lower":"3GB","upper":"1GB"}}})J",
         "error: /terms/activations/lower: expected at most 'bytes' (2,000,000,000); got "
         "3,000,000,000\n"
         "error: /terms/activations/upper: expected at least 'bytes' (2,000,000,000); got "
         "1,000,000,000\n"},
        {R"J({"membudget":1,"terms":{"activations":{"bytes":"2GB","phases":[]}}})J",
         "error: /terms/activations/phases: expected a list of at least one name; got an empty "
         "array\n"},
        {R"J({"membudget":1,"terms":{"activations":{"bytes":"2GB","phases":"backward"}}})J",
         "error: /terms/activations/phases: expected a list of at least one name; got a string "
         "('backward')\n"},
        {R"J({"membudget":1,"terms":{"activations":{"bytes":"2GB","at":{"batch":2}}}})J",
         "error: /terms/activations/at/batch: unknown key 'batch'\n"
         "  hint: keys: micro_batch_size, sequence_length\n"},
        {R"J({"membudget":1,"terms":{"activations":{"bytes":"2GB","at":2}}})J",
         "error: /terms/activations/at: expected an object; got an integer (2)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"device":80})J",
         "error: /device: expected a name or an object; got an integer (80)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"device":{"memory":"80G"}})J",
         "error: /device/memory: expected a size with its whole unit; got '80G', which could "
         "mean 80,000,000,000 or 85,899,345,920 bytes\n"
         "  hint: write '80GB' or '80GiB'\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"device":{"capacity":"80GB"}})J",
         "error: /device/capacity: unknown key 'capacity'\n"
         "  hint: keys: name, memory, reserve\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"allocator":["default"]})J",
         "error: /allocator: expected an object or a text; got an array\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"allocator":{"a":{"b":1,"b":2}}})J",
         "error: /allocator/a/b: expected every key once; got 'b' again\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"scenarios":[]})J",
         "error: /scenarios: expected an object of merge patches; got an empty array\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"scenarios":{"a":1,"b":null,"":{}}})J",
         "error: /scenarios/a: expected a merge patch, which is an object; got an integer (1)\n"
         "error: /scenarios/b: expected a merge patch, which is an object; got null\n"
         "  hint: to state nothing, leave the key out\n"
         "error: /scenarios/: expected a scenario's name; got an empty string\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"scenarios":{"a":{"scenarios":{}}}})J",
         "error: /scenarios/a/scenarios: expected a scenario without scenarios of its own; got "
         "an empty object\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"scenarios":{"a\u001b[31m":{}}})J",
         "error: /scenarios/a\033[31m: expected a scenario's name without control characters; "
         "got a string ('a\\x1b[31m')\n"},
        {"{\"membudget\":1,\"model\":{\"name\":\"x\"},\"scenarios\":{\"a\":{\"training\":{\"loss"
         "\":\"x\",\"loss\":\"y\"}}}}",
         "error: /scenarios/a/training/loss: expected every key once; got 'loss' again\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"name":"a\nb"})J",
         "error: /name: expected text without control characters; got a string ('a\\nb')\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"name":7})J",
         "error: /name: expected text; got an integer (7)\n"},
        {R"J({"membudget":1,"model":{"name":"x"},"model":{"name":"y"}})J",
         "error: /model: expected every key once; got 'model' again\n"},
        {"{\"membudget\":1,\"a/b~c\":1,\"model\":{\"name\":\"x\"},\"training\":{\"sequence_lengt"
         "h\":-1,\"optimzer\":\"x\"},\"parallelism\":{\"data\":1.5},\"device\":{\"memory\":\"8 "
         "XB\"}}",
         "error: /a~1b~0c: unknown key 'a/b~c'\n"
         "  hint: keys: membudget, name, model, training, parallelism, terms, device, "
         "allocator, scenarios\n"
         "error: /training/sequence_length: expected a positive integer; got a negative integer "
         "(-1)\n"
         "error: /training/optimzer: unknown key 'optimzer'\n"
         "  hint: did you mean 'optimizer'?\n"
         "error: /parallelism/data: expected a positive integer; got a fraction (1.5)\n"
         "error: /device/memory: expected a size such as '80GB', '1.5 GiB' or '4096B'; got '8 "
         "XB' with an unknown unit 'XB'\n"
         "  hint: units: B, kB, MB, GB, TB, PB (powers of 1000), KiB, MiB, GiB, TiB, PiB "
         "(powers of 1024)\n"},
    };
    for (const Case& c : cases) {
        INFO(c.document);
        const Result<KeyTree> tree = parse_json(c.document, "run.json", DuplicateKeys::keep);
        REQUIRE(tree.ok());
        const Result<Spec> spec = read_spec(*tree, "run.json");
        REQUIRE_FALSE(spec.ok());
        CHECK(shown(spec.errors()) == c.errors);
        for (const Diagnostic& one : spec.errors().list()) CHECK(one.file == "run.json");
    }
}
