// All operations on tensors.
#pragma once
#include "athanor/ops/activations.h"
#include "athanor/ops/conv.h"
#include "athanor/ops/creation.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/loss.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/norm.h"
#include "athanor/ops/pool.h"
#include "athanor/ops/random.h"
#include "athanor/ops/reduction.h"
