// Includes all headers for training parameters.
#pragma once
#include "athanor/optim/adam.h"
#include "athanor/optim/clip.h"
#include "athanor/optim/grad_scaler.h"
#include "athanor/optim/optimizer.h"
#include "athanor/optim/schedule.h"
#include "athanor/optim/sgd.h"
