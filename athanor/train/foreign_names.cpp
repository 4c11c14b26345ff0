#include "athanor/train/foreign_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace athanor {
namespace {

/// A part of a name and its replacement. A `from` that begins with '^' matches only at the beginning, one
/// that ends with '$' only at the end.
struct Renaming {
  std::string_view from, to;
};

constexpr std::array prefixes{Renaming{"^_orig_mod.", ""}, Renaming{"^module.", ""},
                              Renaming{"^transformer.", ""}};

// Tensors that no model has: causal masks of older GPT-2 files, repeated embeddings, poolers, and BERT's
// second task.
constexpr std::array<std::string_view, 9> nobodys{".attn.bias",
                                                  ".attn.masked_bias",
                                                  "lm_head.weight",
                                                  "pooler.dense.weight",
                                                  "pooler.dense.bias",
                                                  "cls.predictions.decoder.weight",
                                                  "cls.predictions.decoder.bias",
                                                  "embeddings.position_ids",
                                                  "embeddings.token_type_ids"};

constexpr std::array vit_of_timm{Renaming{"^cls_token", "class_token"},
                                 Renaming{"^pos_embed$", "encoder.pos_embedding"},
                                 Renaming{"^patch_embed.proj.", "conv_proj."},
                                 Renaming{"^blocks.", "encoder.layers.encoder_layer_"},
                                 Renaming{"^norm.", "encoder.ln."},
                                 Renaming{"^head.", "heads.head."},
                                 Renaming{".norm1.", ".ln_1."},
                                 Renaming{".norm2.", ".ln_2."},
                                 Renaming{".attn.qkv.", ".self_attention.in_proj_"},
                                 Renaming{".attn.proj.", ".self_attention.out_proj."},
                                 Renaming{".mlp.fc1.", ".mlp.0."},
                                 Renaming{".mlp.fc2.", ".mlp.3."}};

// Names in files, and the names that the newer library has in memory.
constexpr std::array vit_of_hugging_face{Renaming{"^vit.", ""},
                                         Renaming{"^embeddings.cls_token", "class_token"},
                                         Renaming{"^embeddings.position_embeddings", "encoder.pos_embedding"},
                                         Renaming{"^embeddings.patch_embeddings.projection.", "conv_proj."},
                                         Renaming{"^encoder.layer.", "encoder.layers.encoder_layer_"},
                                         Renaming{"^layers.", "encoder.layers.encoder_layer_"},
                                         Renaming{"^layernorm.", "encoder.ln."},
                                         Renaming{"^classifier.", "heads.head."},
                                         Renaming{".layernorm_before.", ".ln_1."},
                                         Renaming{".layernorm_after.", ".ln_2."},
                                         Renaming{".attention.attention.query.", ".query."},
                                         Renaming{".attention.attention.key.", ".key."},
                                         Renaming{".attention.attention.value.", ".value."},
                                         Renaming{".attention.q_proj.", ".query."},
                                         Renaming{".attention.k_proj.", ".key."},
                                         Renaming{".attention.v_proj.", ".value."},
                                         Renaming{".attention.output.dense.", ".self_attention.out_proj."},
                                         Renaming{".attention.o_proj.", ".self_attention.out_proj."},
                                         Renaming{".intermediate.dense.", ".mlp.0."},
                                         Renaming{".output.dense.", ".mlp.3."},
                                         Renaming{".mlp.fc1.", ".mlp.0."},
                                         Renaming{".mlp.fc2.", ".mlp.3."}};

constexpr std::array bert_of_hugging_face{Renaming{"^embeddings.", "bert.embeddings."},
                                          Renaming{"^encoder.", "bert.encoder."},
                                          Renaming{".gamma$", ".weight"}, Renaming{".beta$", ".bias"}};

std::string renamed(std::string name, std::span<const Renaming> rules) {
  for (auto [from, to] : rules) {
    const bool at_start = from.starts_with('^'), at_end = from.ends_with('$');
    from.remove_prefix(at_start ? 1 : 0);
    from.remove_suffix(at_end ? 1 : 0);
    const size_t at = name.find(from);
    const bool fits =
        at != std::string::npos && (!at_start || at == 0) && (!at_end || at + from.size() == name.size());
    if (fits) name.replace(at, from.size(), to);
  }
  return name;
}

/// The rules for a file, by a name that only such files have.
std::span<const Renaming> rules_for(const std::map<std::string, HostArray>& tensors) {
  for (const auto& [name, array] : tensors) {
    if (name.ends_with("embeddings.cls_token")) return vit_of_hugging_face;
    if (name.ends_with("patch_embed.proj.weight")) return vit_of_timm;
    if (name.ends_with("embeddings.word_embeddings.weight")) return bert_of_hugging_face;
  }
  return {};
}

/// Joins ViT's queries, keys and values in one tensor, as in torchvision.
void join_projections(std::map<std::string, HostArray>& tensors) {
  constexpr std::string_view first = ".query.";
  std::vector<std::string> queries;
  for (const auto& [name, array] : tensors)
    if (name.starts_with("encoder.layers.") && name.find(first) != std::string::npos) queries.push_back(name);
  for (const std::string& query : queries) {
    const size_t at = query.find(first);
    const std::string layer = query.substr(0, at), kind = query.substr(at + first.size());
    const auto part_called = [&](std::string_view part) {
      return tensors.find(fmt::format("{}.{}.{}", layer, part, kind));
    };
    const auto key = part_called("key"), value = part_called("value");
    HostArray all = std::move(tensors.extract(query).mapped());
    for (const auto& part : {key, value}) {
      if (part == tensors.end() || part->second.dtype != all.dtype || part->second.shape.rank() < 1) continue;
      all.shape = all.shape.with(0, all.shape[0] + part->second.shape[0]);
      all.bytes.insert(all.bytes.end(), part->second.bytes.begin(), part->second.bytes.end());
      tensors.erase(part);
    }
    tensors.emplace(fmt::format("{}.self_attention.in_proj_{}", layer, kind), std::move(all));
  }
}

bool is_nobodys(const std::string& name) {
  return name.starts_with("cls.seq_relationship.") ||
         std::ranges::any_of(nobodys, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace

std::map<std::string, HostArray> with_own_names(std::map<std::string, HostArray>&& tensors) {
  const std::span<const Renaming> rules = rules_for(tensors);
  std::map<std::string, HostArray> result;
  for (auto& [name, array] : tensors)
    if (const std::string plain = renamed(name, prefixes); !is_nobodys(plain))
      result.emplace(renamed(plain, rules), std::move(array));
  if (rules.data() == vit_of_hugging_face.data()) join_projections(result);
  return result;
}

}  // namespace athanor
