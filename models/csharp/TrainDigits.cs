using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Runtime.InteropServices;
using System.Text.Json;
using Microsoft.ML.OnnxRuntime;

/// <summary>Train on the digits. Usage: TrainDigits FOLDER [STEPS]; FOLDER is what models/web/write_files.py wrote. Prints the losses as JSON.</summary>
static class TrainDigits
{
    static void Main(string[] arguments)
    {
        var folder = arguments[0];
        var steps = arguments.Length > 1 ? int.Parse(arguments[1]) : 50;
        var entries = JsonDocument.Parse(File.ReadAllText(Path.Combine(folder, "data.json"))).RootElement;
        var content = File.ReadAllBytes(Path.Combine(folder, "data.bin"));
        var images = Read<float>(entries.GetProperty("train_images"), content);
        var labels = Read<long>(entries.GetProperty("train_labels"), content);
        var order = Read<int>(entries.GetProperty("order"), content);
        var batch = entries.GetProperty("order").GetProperty("shape")[1].GetInt32();

        var step = new TrainingStep(Path.Combine(folder, "step.json"));
        var loss = step.Manifest.GetProperty("fetches")[0].GetProperty("name").GetString();
        var losses = new List<string>();
        for (var i = 0; i < steps; i++)
        {
            var chosenImages = new float[batch * 64];
            var chosenLabels = new long[batch];
            for (var row = 0; row < batch; row++)
            {
                var index = order[i * batch + row];
                Array.Copy(images, index * 64, chosenImages, row * 64, 64);
                chosenLabels[row] = labels[index];
            }
            using (var image = OrtValue.CreateTensorValueFromMemory(chosenImages, new long[] { batch, 1, 8, 8 }))
            using (var label = OrtValue.CreateTensorValueFromMemory(chosenLabels, new long[] { batch }))
            {
                var fetches = step.Run(new Dictionary<string, OrtValue> { ["image"] = image, ["label"] = label });
                losses.Add(fetches[loss].GetTensorDataAsSpan<float>()[0].ToString("R", CultureInfo.InvariantCulture));
                foreach (var fetch in fetches.Values) fetch.Dispose();
            }
        }
        Console.WriteLine("[" + string.Join(", ", losses) + "]");
    }

    static T[] Read<T>(JsonElement entry, byte[] content) where T : struct =>
        MemoryMarshal.Cast<byte, T>(content.AsSpan(entry.GetProperty("offset").GetInt32(), entry.GetProperty("bytes").GetInt32())).ToArray();
}
