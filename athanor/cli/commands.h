// The subcommands. Each adds itself to the program; when it is called, it runs and sets the exit code.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace athanor::cli {

void add_train(CLI::App& program, int& exit_code);
void add_eval(CLI::App& program, int& exit_code);
void add_predict(CLI::App& program, int& exit_code);
void add_runs(CLI::App& program, int& exit_code);
void add_data(CLI::App& program, int& exit_code);
void add_sample(CLI::App& program, int& exit_code);
void add_explain(CLI::App& program, int& exit_code);
void add_fit(CLI::App& program, int& exit_code);
void add_detect(CLI::App& program, int& exit_code);
void add_tune(CLI::App& program, int& exit_code);
void add_cache(CLI::App& program, int& exit_code);
void add_kernels(CLI::App& program, int& exit_code);
void add_doctor(CLI::App& program, int& exit_code);
void add_completion(CLI::App& program, int& exit_code);

/// "mlp, cnn, resnet18"
std::string names_of(const std::vector<std::string>& names);

}  // namespace athanor::cli
