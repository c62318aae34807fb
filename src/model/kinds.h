#pragma once

#include <vector>

#include "model/model.h"

namespace rookery::model {

// The models that come with Rookery, presets included.
std::vector<Kind> built_in_kinds();

std::unique_ptr<Model> make_gpt(const ModelOptions& options);
std::unique_ptr<Model> make_bert(const ModelOptions& options);
std::unique_ptr<Model> make_seq2seq(const ModelOptions& options);
std::unique_ptr<Model> make_mlp(const ModelOptions& options);
std::unique_ptr<Model> make_cnn(const ModelOptions& options);
std::unique_ptr<Model> make_resnet18(const ModelOptions& options);
std::unique_ptr<Model> make_resnet50(const ModelOptions& options);
std::unique_ptr<Model> make_vgg16(const ModelOptions& options);

}  // namespace rookery::model
